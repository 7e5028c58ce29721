// Shows the data of a saved replay, or says why it cannot be shown.
import { Replay, unpack } from '../model/replay';
import { Difference } from './difference';
import { h } from './dom';
import { play } from './player';

/** The data as jmars/notebook/replay.py writes it. */
export interface Saved {
  runs?: string[]; // replay data as base64 text
  names?: string[]; // of two runs
  difference?: Difference | null;
}

/** Draws a replay into `el`; the promise gives a function that removes it. */
export async function showReplay(el: HTMLElement, saved: Saved): Promise<() => void> {
  let replays: Replay[];
  try {
    replays = await Promise.all((Array.isArray(saved.runs) ? saved.runs.slice(0, 2) : []).map(unpack));
    if (!replays.length) {
      throw new Error('The replay is damaged: it holds no run');
    }
  } catch (error) {
    const told = h('section', { class: 'jm', 'aria-label': 'jmars replay' }, h('p', { class: 'jm-error', role: 'alert' }, error instanceof Error ? error.message : String(error)));
    el.append(told);
    return () => told.remove();
  }
  return play(el, replays, (saved.names ?? []).map(String), saved.difference ?? null);
}
