// Draws the hosts of a cluster of several hosts: the headings in the table of workers, and the table of their memory.
import { bytes, count, plural } from '../model/format';
import { ALL, Group, Groups, hostTitle } from '../model/hosts';
import { HostHeading, WorkerRow } from '../model/view';
import { Child, h } from './dom';
import { head, look, meter, number } from './table_parts';

const dash = (value: number) => (value ? bytes(value) : '–');

/** A button with the name of a host, which shows or hides its workers. */
function fold({ host, open, workers }: Group): HTMLElement {
  const label = `${open ? 'hide' : 'show'} the ${plural(workers.length, 'worker')} of ${host.name}`;
  return h('button', { type: 'button', class: 'jm-fold', 'data-host': host.name, 'aria-expanded': String(open), 'aria-label': label }, h('span', { class: 'jm-name jm-hostname' }, host.name));
}

/** The row of a host in the table of workers: sums over its workers, and the memory of all its processes. */
export function hostRow(group: Group, workers: WorkerRow[]): HTMLElement {
  const { host } = group;
  const sum = (name: 'assigned' | 'running' | 'done' | 'stored') => group.workers.reduce((all, worker) => all + (Number(workers[worker][name]) || 0), 0);
  return h(
    'tr',
    { class: 'jm-host', 'data-state': host.state, title: hostTitle(host) },
    h('th', { scope: 'rowgroup' }, fold(group)),
    h('td', { class: 'jm-word' }, host.state === 'joined' ? plural(group.workers.length, 'worker') : host.state),
    h('td', { class: look('pid') }, ''),
    number(sum('assigned'), 'assigned'),
    number(sum('running'), 'running'),
    number(sum('done')),
    h('td', { class: look('chunks made') }, bytes(sum('stored'))),
    h('td', { class: 'jm-cell' }, ...memoryOf(host))
  );
}

const memoryOf = (host: HostHeading): Child[] => [h('span', {}, dash(host.memory)), meter(host.memory, host.limit, `memory of ${host.name}`)];

/** A table of the hosts: memory, bytes on disk, bytes that came from other hosts. */
export function hostsTable(groups: Groups): Child[] {
  const rows = groups.listed.map(({ host }) =>
    h(
      'tr',
      { class: 'jm-host', 'data-state': host.state, title: hostTitle(host) },
      h('th', { scope: 'row' }, h('span', { class: 'jm-name jm-hostname' }, host.name)),
      h('td', { class: 'jm-cell' }, ...memoryOf(host)),
      h('td', { class: host.spilled ? null : 'jm-0' }, bytes(host.spilled)),
      h('td', { class: host.received ? null : 'jm-0' }, bytes(host.received))
    )
  );
  return [h('table', { class: 'jm-t jm-hosts', 'aria-label': 'memory of each host' }, head('host', 'memory of the host', 'on disk', 'from other hosts'), h('tbody', {}, ...rows)), moreHosts(groups)];
}

/** A button for the rest of the hosts; null if all are listed. */
export function moreHosts({ more, all }: Groups): HTMLElement | null {
  const words = all ? 'List fewer hosts' : `${count(more)} more ${more === 1 ? 'host' : 'hosts'}, all well: list them`;
  return more || all ? h('button', { type: 'button', class: 'jm-toggle jm-more', 'data-host': ALL, 'aria-expanded': String(all) }, words) : null;
}
