// Draws the tables of workers and operands, which also serve readers who cannot see the canvas.
import { bytes, count, plural } from '../model/format';
import { LETTERS, MEANINGS } from '../model/states';
import { Groups, lossText, receivedText, shortName } from '../model/hosts';
import { DrawnGraph, Snap, STATE_NAMES, WorkerRow } from '../model/view';
import { smallBar } from './bar';
import { h, morph } from './dom';
import { hostRow, moreHosts } from './host_rows';
import { EACH, head, look, meter, number } from './table_parts';

/** Draws the workers: operands assigned, running and done, bytes of chunks and memory. */
export function drawWorkers(el: HTMLElement, workers: WorkerRow[], groups: Groups | null, limit: number, engine: string): void {
  if (!workers.length) {
    morph(el, [h('p', { class: 'jm-note' }, 'No worker is known yet.')]);
    return;
  }
  const all = limit || Math.max(1, ...workers.map(worker => worker.memory));
  const row = (worker: WorkerRow, i: number, name = worker.name, most = all) =>
    h(
      'tr',
      groups ? { class: 'jm-ofhost', 'data-state': groups.hosts[worker.host]?.state } : {},
      h('th', { scope: 'row' }, h('i', { class: `jm-dot jm-w${i % 8}`, 'aria-hidden': 'true' }), name),
      h('td', { class: 'jm-word' }, worker.replaced ? `${worker.state}, replaced ${worker.replaced > 1 ? `${count(worker.replaced)} times` : 'once'}` : worker.state),
      h('td', { class: look('pid') }, worker.pid ? String(Number(worker.pid)) : '–'),
      groups ? h('td', { class: look('assigned') }) : number(worker.assigned, 'assigned'), // a host chooses the worker itself
      number(worker.running, 'running'),
      number(worker.done),
      h('td', { class: look('chunks made') }, bytes(worker.stored)),
      h('td', { class: 'jm-cell' }, h('span', {}, worker.memory ? bytes(worker.memory) : '–'), meter(worker.memory, most, `memory of ${worker.name}`))
    );
  const rows = groups
    ? groups.listed.flatMap(group => [hostRow(group, workers), ...(group.open ? group.workers.map(at => row(workers[at], at, shortName(workers[at], group.host), group.host.limit || all)) : [])])
    : workers.map((worker, i) => row(worker, i));
  const lost = lossText(groups?.hosts ?? []);
  const received = receivedText(groups?.hosts ?? []);
  const kept = groups
    ? 'Memory of a host: all its processes and the chunks that it keeps, as a share of its limit; of a worker: the process itself'
    : `${engine ? `Memory: that of ${engine}'s process, which keeps the chunks` : "Memory: the process's own, without stored chunks"}${limit ? `; a share of the cluster's ${bytes(limit)}` : ''}`;
  morph(el, [
    lost ? h('p', { class: 'jm-note jm-loss' }, lost) : null,
    h('p', { class: 'jm-note' }, h('span', { class: look('assigned') }, `Assigned: operands planned for a ${groups ? 'host' : 'worker'}. `), `${kept}.${received ? ` ${received}.` : ''}`),
    h(
      'table',
      { class: 'jm-t', 'aria-label': 'workers' },
      head('worker', 'state', 'pid', 'assigned', 'running', 'done', 'chunks made', 'memory'),
      h('tbody', {}, ...rows)
    ),
    groups && moreHosts(groups)
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
  const note = `${plural(graph.n_before, 'operand')} before fusion, by the line that made them; fused operands change state together.${graph.stage_number > 1 ? ` These are of stage ${count(graph.stage_number)}, the newest.` : ''}`;
  morph(el, [
    h('p', { class: 'jm-note' }, note),
    h('table', { class: 'jm-t', 'aria-label': 'operands by line' }, head('operand', 'line', 'count', 'progress', ...states), h('tbody', {}, ...rows))
  ]);
}
