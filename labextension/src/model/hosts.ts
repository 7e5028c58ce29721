// The hosts of a cluster of several hosts, with their workers: what is shown of them, and in which words.
import { bytes, count, plural, seconds } from './format';
import { HostHeading, WorkerRow } from './view';

export const MOST_WORKERS = 16; // of all hosts together: with more of them, hosts are closed at first
export const MOST_HOSTS = 8; // that are listed at first, beside those that are not well
const NAMED = 3; // lost hosts that are named
export const ALL = '*'; // in place of a host's name: the list of hosts

/** Which hosts the user opened or closed, by name. */
export type Unfolded = Record<string, boolean>;

/** A host with its workers. */
export interface Group {
  host: HostHeading;
  workers: number[]; // numbers of its workers
  open: boolean; // its workers are shown one by one
}

/** The listed hosts, and how many more there are. */
export interface Groups {
  hosts: HostHeading[]; // all
  listed: Group[];
  more: number;
  all: boolean; // all are listed because the user asked for that
}

/** Whether the cluster has a host no more: it was lost, or it left. */
export function isGone(host: HostHeading): boolean {
  return host.state === 'lost' || host.state === 'left';
}

/** Hosts of the run: those that were gone before it are left out. */
export function present(hosts: HostHeading[]): HostHeading[] {
  return hosts.filter(host => !isGone(host) || host.since >= 0);
}

/** The hosts with their workers; null for a cluster that is not one of several hosts. */
export function grouped(hosts: HostHeading[], workers: WorkerRow[], unfolded: Unfolded): Groups | null {
  const mine = present(hosts);
  if (!mine.length) {
    return null;
  }
  const of = hosts.map(() => [] as number[]);
  workers.forEach((worker, number) => of[worker.host]?.push(number));
  const few = mine.reduce((sum, host) => sum + of[hosts.indexOf(host)].length, 0) <= MOST_WORKERS;
  const groups = mine.map(host => ({ host, workers: of[hosts.indexOf(host)], open: unfolded[host.name] ?? few }));
  const all = Boolean(unfolded[ALL]);
  const listed = groups.filter(({ host }, at) => all || at < MOST_HOSTS || host.state !== 'joined');
  return { hosts, listed, more: groups.length - listed.length, all: all && groups.length > MOST_HOSTS };
}

/** The name of a worker below the heading of its host: "worker-1" of "host-0/worker-1". */
export function shortName(worker: WorkerRow, host: HostHeading): string {
  return worker.name.startsWith(`${host.name}/`) ? worker.name.slice(host.name.length + 1) : worker.name;
}

/** "on 2 hosts", "on 1 of 2 hosts" after a loss; "" without hosts. */
export function placeText(hosts: HostHeading[]): string {
  const mine = present(hosts);
  const here = mine.filter(host => !isGone(host)).length;
  return mine.length ? `on ${here < mine.length ? `${count(here)} of ` : ''}${plural(mine.length, 'host')}` : '';
}

/** What the tooltip of a host says. */
export function hostTitle(host: HostHeading): string {
  const when = isGone(host) ? ` after ${seconds(host.since)}` : '';
  const links = isGone(host) ? [] : (host.links ?? []).slice(0, NAMED);
  const rates = links.map(link => `; reads ${link.source} at ${bytes(link.bandwidth)}/s${link.transport === 'head' ? ' by the head' : ''}`);
  return `${host.name}: ${host.state}${when}${host.why ? `, ${host.why}` : ''}${rates.join('')}`;
}

/** A sentence for each lost host, the newest first; "" if none was lost during the run. */
export function lossText(hosts: HostHeading[]): string {
  const lost = present(hosts).filter(host => host.state === 'lost').sort((a, b) => b.since - a.since);
  const more = lost.length > NAMED ? [`${plural(lost.length - NAMED, 'more host')} were lost.`] : [];
  return [...lost.slice(0, NAMED).map(host => `${host.name} was lost after ${seconds(host.since)}${host.why ? `: ${host.why}` : ''}.`), ...more].join(' ');
}

/** "1.2 GiB came from other hosts"; "" if no chunk did. */
export function receivedText(hosts: HostHeading[]): string {
  const sum = received(hosts);
  return sum ? `${bytes(sum)} came from other hosts` : '';
}

/** Bytes that came from other hosts, on all hosts together. */
export function received(hosts: HostHeading[]): number {
  return hosts.reduce((sum, host) => sum + (Number(host.received) || 0), 0);
}
