// Draws the tables of workers and operands, which also serve readers who cannot see the canvas.
import { bytes, count, plural } from '../model/format';
import { LETTERS, MEANINGS } from '../model/states';
import { DrawnGraph, Snap, STATE_NAMES, WorkerRow } from '../model/view';
import { meaning } from '../model/words';
import { smallBar } from './bar';
import { Child, h, morph } from './dom';

const WORDS = ['worker', 'state', 'operand', 'line', 'progress']; // columns of words are left-aligned
const ASIDE = ['pid', 'assigned']; // the first columns to go where there is little room
const SPARE = ['running', 'chunks made']; // the next columns to go: state and memory say nearly the same
const EACH = 'each state'; // columns that the bar of progress replaces where there is little room
const look = (name: string) =>
  WORDS.includes(name) ? 'jm-word' : ASIDE.includes(name) ? 'jm-aside' : SPARE.includes(name) ? 'jm-spare' : name === EACH ? 'jm-each' : null;
const head = (...names: Child[]) =>
  h('thead', {}, h('tr', {}, ...names.map(name => h('th', { scope: 'col', class: look(typeof name === 'string' ? name : EACH), title: typeof name === 'string' ? meaning(name) : null }, name))));
const number = (value: number, column = '') => h('td', { class: [value ? '' : 'jm-0', look(column)].filter(Boolean).join(' ') || null }, count(value));

/** A bar that shows `value` bytes as a share of `most`. */
function meter(value: number, most: number, label: string): HTMLElement {
  const share = most > 0 ? Math.min(1, value / most) : 0;
  return h(
    'span',
    {
      class: 'jm-meter',
      role: 'meter',
      'aria-label': label,
      'aria-valuemin': 0,
      'aria-valuemax': Math.max(1, Math.round(most)),
      'aria-valuenow': Math.round(Math.min(value, most)),
      'aria-valuetext': `${bytes(value)} of ${bytes(most)}`
    },
    h('i', { style: `width:${(100 * share).toFixed(1)}%` })
  );
}

/** Draws the workers: operands assigned, running and done, bytes of chunks and memory. */
export function drawWorkers(el: HTMLElement, workers: WorkerRow[], limit: number, engine: string): void {
  if (!workers.length) {
    morph(el, [h('p', { class: 'jm-note' }, 'No worker is known yet.')]);
    return;
  }
  const most = limit || Math.max(1, ...workers.map(worker => worker.memory));
  const rows = workers.map((worker, i) =>
    h(
      'tr',
      {},
      h('th', { scope: 'row' }, h('i', { class: `jm-dot jm-w${i % 8}`, 'aria-hidden': 'true' }), worker.name),
      h('td', { class: 'jm-word' }, worker.replaced ? `${worker.state}, replaced ${worker.replaced > 1 ? `${count(worker.replaced)} times` : 'once'}` : worker.state),
      h('td', { class: look('pid') }, worker.pid ? String(Number(worker.pid)) : '–'),
      number(worker.assigned, 'assigned'),
      number(worker.running, 'running'),
      number(worker.done),
      h('td', { class: look('chunks made') }, bytes(worker.stored)),
      h('td', { class: 'jm-cell' }, h('span', {}, worker.memory ? bytes(worker.memory) : '–'), meter(worker.memory, most, `memory of ${worker.name}`))
    )
  );
  morph(el, [
    h('p', { class: 'jm-note' }, `Assigned: operands assigned before the run. ${engine ? `${engine} keeps the chunks; memory is that of ${engine}'s process` : "Chunks lie in shared memory or on disk, memory is the process's own"}${limit ? `, shown as a share of the cluster's ${bytes(limit)}` : ''}.`),
    h(
      'table',
      { class: 'jm-t', 'aria-label': 'workers' },
      head('worker', 'state', 'pid', 'assigned', 'running', 'done', 'chunks made', 'memory'),
      h('tbody', {}, ...rows)
    )
  ]);
}

/** Why there is no graph to draw. */
export function withoutGraph(snap: Snap | null): string {
  if (snap?.state === 'failed' || snap?.state === 'cancelled') {
    return `The job ${snap.state === 'failed' ? 'failed' : 'was cancelled'} before it ran, so there is no graph.`;
  }
  return !snap || snap.live ? 'The graph is being built.' : 'The graph is not kept.';
}

/** Draws the operands before fusion, by the line of the cell that made them. */
export function drawOperands(el: HTMLElement, graph: DrawnGraph | null, counts: number[][], snap: Snap | null): void {
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
  const note = `${plural(graph.n_before, 'operand')} before fusion, by the line that made them; fused operands change state together.`;
  morph(el, [
    h('p', { class: 'jm-note' }, note),
    h('table', { class: 'jm-t', 'aria-label': 'operands by line' }, head('operand', 'line', 'count', 'progress', ...states), h('tbody', {}, ...rows))
  ]);
}
