// The states of an operand in the view. Colours are in style/view.css as --jm-s0 to --jm-s8; each state
// also has a letter, so that nobody needs the colour.
import { STATE_NAMES } from './view';

export const N_STATES = STATE_NAMES.length;
export const LETTERS = ['U', 'R', '▶', 'F', '–', 'S', 'c', 'C', '!'];

/** What each state means, for tooltips. */
export const MEANINGS = [
  'waits for its inputs',
  'all inputs are computed; waits for a worker or for memory',
  'runs on a worker',
  'done; its chunk is in memory',
  'done; its chunk was freed, since no operand or name needs it',
  'done; its chunk is on disk',
  'is being stopped',
  'was not run, or was stopped',
  'failed, or an input failed'
];

/** Order in a bar: done, running, waiting, failed. */
export const BAR_ORDER = [4, 3, 5, 2, 6, 1, 0, 7, 8];

export const DONE = [3, 4, 5];

/** Number of operands that are done. */
export function done(counts: number[]): number {
  return DONE.reduce((sum, state) => sum + (counts[state] || 0), 0);
}

/** "3 running, 2 ready": the counts as a sentence. */
export function sentence(counts: ArrayLike<number>): string {
  const parts = BAR_ORDER.filter(state => counts[state]).map(state => `${counts[state]} ${STATE_NAMES[state]}`);
  return parts.length ? parts.join(', ') : 'none';
}
