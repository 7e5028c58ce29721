import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { pieceAt } from '../src/draw/lanes';
import { mount } from '../src/draw/mount';
import { grouped, hostTitle, lossText, placeText, receivedText } from '../src/model/hosts';
import { busyShares } from '../src/model/lane_rows';
import { HostHeading, Picture, WorkerRow } from '../src/model/view';
import { picture } from './pictures';

const heading = (name: string, changes: Partial<HostHeading> = {}): HostHeading => ({ name, state: 'joined', why: '', since: -5, memory: 2 ** 20, limit: 2 ** 22, spilled: 0, received: 0, begin: [], end: [], nbytes: [], links: [], ...changes });
const worker = (name: string, host: number, changes: Partial<WorkerRow> = {}): WorkerRow => ({ name, host, pid: 7, state: 'idle', assigned: 2, running: 0, done: 1, memory: 2 ** 20, stored: 64, replaced: 0, ...changes });
const two = [heading('host-0'), heading('host-1', { received: 3 * 2 ** 20, begin: [0.5], end: [0.75], nbytes: [3 * 2 ** 20] })];
const four = [worker('host-0/worker-0', 0), worker('host-0/worker-1', 0), worker('host-1/worker-0', 1), worker('host-1/worker-1', 1)];
const lane = (of: number) => ({ worker: of, begin: [0.2], end: [0.6], took: [[0, 0, 0.4, 0]], n: [1], label: [1], open: null });
const lanes = { labels: ['', 'rand'], lanes: [0, 1, 2, 3].map(lane) };
const lost = { ...two[1], state: 'lost', why: 'its process has ended', since: 1.2, memory: 0 };

let shown: Picture;
let changed: () => void;
const view = () => mount(document.body, { get: name => shown[name], watch: call => ((changed = call), () => undefined) });
const tick = () => new Promise(resolve => requestAnimationFrame(resolve));
const texts = (selector: string) => [...document.querySelectorAll(selector)].map(node => node.textContent);
const open = (tab: string) => (document.querySelector(`[role=tab][id$=${tab}]`) as HTMLElement).click();
const rows = () => texts('.jm-workers tbody th');

beforeEach(() => {
  shown = picture({ hosts: two, workers: four, lanes });
  HTMLCanvasElement.prototype.getContext = (() => null) as never; // jsdom draws nothing
});
afterEach(() => document.body.replaceChildren());

describe('a cluster of several hosts', () => {
  test('is told in the header, with the hosts that were lost', async () => {
    view();
    expect(texts('.jm-place')).toEqual(['on 2 hosts']);
    shown = { ...shown, hosts: [two[0], lost] };
    changed();
    await tick();
    expect(texts('.jm-place')).toEqual(['on 1 of 2 hosts']);
    expect(document.querySelector('.jm-place')!.getAttribute('title')).toBe('host-1 was lost after 1.2 s: its process has ended.');
  });
  test('has a heading for each host, with short names of the workers below', () => {
    view();
    open('workers');
    expect(rows()).toEqual(['host-0', 'worker-0', 'worker-1', 'host-1', 'worker-0', 'worker-1']);
    expect(texts('.jm-lanes text').slice(0, 6)).toEqual(['▾ host-0', 'worker-0', 'worker-1', '▾ host-1', 'worker-0', 'worker-1']);
    expect(texts('.jm-host')[0]).toContain('2 workers');
    expect(texts('.jm-workers .jm-note')[0]).toContain('3.0 MiB came from other hosts');
    expect(texts('.jm-workers .jm-legend li')).toContain('from other hosts');
  });
  test('a lost host is struck out, with the reason', () => {
    shown = { ...shown, hosts: [two[0], lost] };
    view();
    open('workers');
    const row = document.querySelector('tr.jm-host[data-state=lost]')!;
    expect(row.getAttribute('title')).toBe('host-1: lost after 1.2 s, its process has ended');
    expect(texts('.jm-loss')).toEqual(['host-1 was lost after 1.2 s: its process has ended.']);
    expect(document.querySelectorAll('tr.jm-ofhost[data-state=lost]').length).toBe(2);
    expect(document.querySelectorAll('.jm-hostline[data-state=lost] .jm-cross').length).toBe(1);
  });
  test('a host that left counts no more, and is no loss', () => {
    shown = { ...shown, hosts: [two[0], { ...lost, state: 'left', why: 'it was evacuated' }] };
    view();
    open('workers');
    expect(texts('.jm-place')).toEqual(['on 1 of 2 hosts']);
    expect(document.querySelector('tr.jm-host[data-state=left]')!.getAttribute('title')).toBe('host-1: left after 1.2 s, it was evacuated');
    expect(texts('.jm-loss')).toEqual([]);
  });
  test('a click on a host hides its workers, in the table and in the time line, and the saved view keeps that', async () => {
    const leave = view();
    open('workers');
    (document.querySelector('.jm-fold[data-host=host-0]') as HTMLElement).click();
    expect(rows()).toEqual(['host-0', 'host-1', 'worker-0', 'worker-1']);
    expect(texts('.jm-lanes text').slice(0, 3)).toEqual(['▸ host-0', '2 workers', '▾ host-1']);
    leave();
    view();
    expect(rows()).toEqual(['host-0', 'host-1', 'worker-0', 'worker-1']);
    document.querySelector('.jm-hostline[data-host=host-0]')!.dispatchEvent(new MouseEvent('click', { bubbles: true }));
    expect(rows().length).toBe(6);
  });
  test('shows memory and transfers of each host in the Memory tab', () => {
    view();
    open('memory');
    expect(texts('.jm-hosts tbody th')).toEqual(['host-0', 'host-1']);
    expect(texts('.jm-hosts tbody tr')[1]).toBe('host-11.0 MiB0 B3.0 MiB');
    expect(texts('.jm-facts div').at(-1)).toBe('from other hosts3.0 MiB');
  });
  test('many hosts are closed and few are listed, but all that are not well', () => {
    const many = Array.from({ length: 40 }, (_, i) => heading(`h${i}`, i === 33 ? { state: 'lost', since: 1 } : {}));
    shown = { ...shown, hosts: many, workers: many.map((one, i) => worker(`${one.name}/worker-0`, i)), snap: { ...shown.snap, job: 'many' } };
    view();
    open('workers');
    expect(rows()).toEqual([...many.slice(0, 8).map(one => one.name), 'h33']);
    (document.querySelector('.jm-more') as HTMLElement).click();
    expect(rows().length).toBe(40);
    expect(texts('.jm-more')[0]).toBe('List fewer hosts');
  });
});

describe('a cluster that is not one of several hosts', () => {
  test('has no headings', () => {
    shown = picture({ lanes: { ...lanes, lanes: lanes.lanes.slice(0, 2) } });
    view();
    open('workers');
    expect(texts('.jm-place')).toEqual(['']);
    expect(rows()).toEqual(['worker-0', 'worker-1']);
    expect(document.querySelectorAll('[data-host], .jm-ofhost').length).toBe(0);
    open('memory');
    expect(document.querySelectorAll('.jm-hosts').length).toBe(0);
    expect(texts('.jm-facts dt')).not.toContain('from other hosts');
  });
  test('a picture that was saved before there were hosts is shown', () => {
    const { hosts: _, ...old } = picture();
    shown = old as Picture;
    view();
    open('workers');
    expect(rows()).toEqual(['worker-0', 'worker-1']);
  });
});

describe('hosts in words', () => {
  test('hosts that were lost before the run do not count', () => {
    const gone = heading('old', { state: 'lost', since: -3 });
    expect(placeText([...two, gone])).toBe('on 2 hosts');
    expect(placeText([gone, two[0]])).toBe('on 1 host');
    expect([placeText([]), lossText([gone]), receivedText([])]).toEqual(['', '', '']);
    expect(grouped([gone], four, {})).toBeNull();
    const groups = grouped([gone, two[0]], [worker('old/worker-0', 0), worker('host-0/worker-0', 1)], {})!;
    expect(groups.listed.map(({ workers }) => workers)).toEqual([[1]]);
  });
  test('the links from other hosts are told of a host that is here', () => {
    const links = [
      { source: 'host-1', bandwidth: 4 * 2 ** 20, latency: 0.001, transport: 'tls' },
      { source: 'host-2', bandwidth: 2 ** 20, latency: 0, transport: 'head' },
    ];
    expect(hostTitle(heading('h', { links }))).toBe('h: joined; reads host-1 at 4.0 MiB/s; reads host-2 at 1.0 MiB/s by the head');
    expect(hostTitle(heading('h', { state: 'lost', since: 2, links }))).toBe('h: lost after 2.0 s');
  });
  test('of many lost hosts the last are named', () => {
    const all = [1, 2, 3, 4, 5].map(at => heading(`h${at}`, { state: 'lost', since: at }));
    expect(lossText(all)).toBe('h5 was lost after 5.0 s. h4 was lost after 4.0 s. h3 was lost after 3.0 s. 2 more hosts were lost.');
  });
  test('what is under the pointer is told: arrivals, and workers of a closed host', () => {
    const el = document.createElement('div');
    const groups = grouped(two, four, { 'host-0': false });
    const x = (t: number) => 82 + (640 - 82 - 14) * t;
    const told = (t: number, y: number) => pieceAt(el, lanes, four, groups, null, 1, x(t), y);
    expect(told(0.4, 40)).toBe('host-0, at 0.4 s: 2.0 of 2 workers calculate or store');
    expect(told(0.9, 40)).toBe('host-0, at 0.9 s: 0.0 of 2 workers calculate or store');
    expect(told(0.6, 4 + 27 + 26 + 22)).toBe('host-1, 0.5 s to 0.8 s: 3.0 MiB came from other hosts');
    expect(told(0.9, 4 + 27 + 26 + 22)).toBe('');
    expect(told(0.4, 4 + 27 + 26 + 27 + 10)).toBe('host-1/worker-0, 0.2 s to 0.6 s: rand (calculating 0.40 s)');
  });
  test('shares of busy workers add up to the time that they were busy', () => {
    const shares = busyShares([lane(0), { ...lane(1), open: { begin: 0.75, n: 1, label: 1 } }], 2, 1, 1, 10);
    expect(shares.map(one => Number(one.toFixed(2)))).toEqual([0, 0, 1, 1, 1, 1, 0, 0.25, 0.5, 0.5]);
  });
});
