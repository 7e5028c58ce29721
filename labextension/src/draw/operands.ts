// The Operands tab: a table that also serves readers who cannot see the canvas.
import { count, plural } from '../model/format';
import { LETTERS, MEANINGS } from '../model/states';
import { DrawnGraph, Snap, STATE_NAMES } from '../model/view';
import { smallBar } from './bar';
import { h, morph } from './dom';
import { Tab } from './tab';
import { EACH, head, number } from './table_parts';

export const operandsTab: Tab = {
  name: 'operands',
  word: 'Operands',
  waits: true,
  make: panel => now => drawOperands(panel, now.graph, now.stages || [], now.snap)
};

/** Why there is no graph to draw. */
export function withoutGraph(snap: Snap | null): string {
  if (snap?.state === 'failed' || snap?.state === 'cancelled') {
    return `The job ${snap.state === 'failed' ? 'failed' : 'was cancelled'} before it ran, so there is no graph.`;
  }
  return !snap || snap.live ? 'The graph is being built.' : 'The graph is not kept.';
}

/** Draws the operands before fusion, by the line of the cell that made them. */
function drawOperands(el: HTMLElement, graph: DrawnGraph | null, counts: number[][], snap: Snap | null): void {
  if (!graph) {
    morph(el, [h('p', { class: 'jm-note' }, withoutGraph(snap))]);
    return;
  }
  const rows = graph.stages.map((stage, i) =>
    h(
      'tr',
      {},
      h('th', { scope: 'row', title: stage.name }, h('span', { class: 'jm-name' }, stage.name)),
      h('td', { class: 'jm-line', title: stage.text }, stage.line ? h('b', {}, `${Number(stage.line)}`) : null, h('code', {}, stage.text || '–')),
      number(stage.n),
      h('td', { class: 'jm-cell jm-word' }, smallBar(counts[i] || [], stage.n)),
      ...STATE_NAMES.map((_, state) => number(counts[i]?.[state] || 0, EACH))
    )
  );
  const states = STATE_NAMES.map((name, state) =>
    h('abbr', { class: `jm-chip jm-s${state}`, title: `${name}: ${MEANINGS[state]}`, 'aria-label': name }, LETTERS[state])
  );
  const note = `${plural(graph.n_before, 'operand')} before fusion, by the line that made them; fused operands change state together.${graph.stage_number > 1 ? ` These are of stage ${count(graph.stage_number)}, the newest.` : ''}`;
  morph(el, [
    h('p', { class: 'jm-note' }, note),
    h('table', { class: 'jm-t', 'aria-label': 'operands by line' }, head('operand', 'line', 'count', 'progress', ...states), h('tbody', {}, ...rows))
  ]);
}
