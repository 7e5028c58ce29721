// The Workers tab: a table of the workers, and the time line of each below.
import { bytes, count } from '../model/format';
import { ALL, Groups, lossText, receivedText, shortName } from '../model/hosts';
import { Picture, WorkerRow } from '../model/view';
import { h, morph } from './dom';
import { hostRow, moreHosts } from './host_rows';
import { drawLanes, watchLanes } from './lanes';
import { Shared, Tab } from './tab';
import { head, look, meter, number } from './table_parts';

export const workersTab: Tab = { name: 'workers', word: 'Workers', make: makeWorkers };

function makeWorkers(panel: HTMLElement, view: Shared): (now: Picture) => void {
  const table = h('div', { class: 'jm-table' });
  const lanes = h('div', { class: 'jm-timeline' });
  panel.append(table, lanes);
  watchHosts(panel, view);
  const timed = (now: Picture) => ({ lanes: now.lanes, workers: now.workers || [], groups: view.groups(now), series: now.series, elapsed: now.snap?.elapsed || 0, until: view.host.until });
  watchLanes(lanes, () => timed(view.shown()), view.setFocus);
  return now => {
    const { workers, groups, series, elapsed, until } = timed(now);
    drawWorkers(table, workers, groups, series?.limit || 0, series?.engine || '');
    drawLanes(lanes, now.lanes, workers, groups, series, elapsed, view.focus, until);
  };
}

/** Opens and closes the hosts that are clicked in `panel`. */
export function watchHosts(panel: HTMLElement, view: Shared): void {
  panel.addEventListener('click', event => {
    const name = (event.target as Element).closest<HTMLElement | SVGElement>('[data-host]')?.dataset.host;
    if (name !== undefined) {
      const unfolded = view.choices.unfolded ?? {};
      const open = name === ALL ? unfolded[ALL] : view.groups(view.shown())?.listed.find(({ host }) => host.name === name)?.open;
      view.choices.unfolded = { ...unfolded, [name]: !open };
      view.keep();
      view.draw();
    }
  });
}

/** Draws the workers: operands assigned, running and done, bytes of chunks and memory. */
function drawWorkers(el: HTMLElement, workers: WorkerRow[], groups: Groups | null, limit: number, engine: string): void {
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
