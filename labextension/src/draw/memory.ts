// Draws memory over time, and bytes on disk on a panel of their own with its own scale, as SVG in real pixels.
import { bytes, seconds, tick } from '../model/format';
import { Groups, received } from '../model/hosts';
import { Picture, Series } from '../model/view';
import { meaning } from '../model/words';
import { h, morph, s } from './dom';
import { hostsTable } from './host_rows';
import { Shared, Tab } from './tab';
import { watchHosts } from './workers';

const LEFT = 68;
const RIGHT = 14;
const TOP = 10;
const BOTTOM = 24;
const HEIGHT = 190; // pixels of the memory panel
const DISK = 110; // pixels of the disk panel
const CURVES = [
  ['resident', 'all processes and chunks', 'jm-resident'],
  ['used', 'reserved for chunks and scratch', 'jm-used']
] as const;
const ON_DISK = [['spilled', 'chunks on disk', 'jm-spilled']] as const;

export const memoryTab: Tab = { name: 'memory', word: 'Memory', more: ' & spill', ofCell: true, make: makeMemory };

function makeMemory(panel: HTMLElement, view: Shared): (now: Picture, live: boolean) => void {
  watchHosts(panel, view);
  return (now, live) => drawMemory(panel, now.series, view.groups(now), live, view.host.until ?? 0);
}

function drawMemory(el: HTMLElement, series: Series | null, groups: Groups | null, live: boolean, until: number): void {
  if (!series || series.t.length === 0) {
    morph(el, [h('p', { class: 'jm-note' }, 'No memory has been measured yet.')]);
    return;
  }
  const facts: [string, number][] = [
    ['peak of the cluster', series.peak],
    ['limit', series.limit],
    [live ? 'reserved now' : 'reserved at the end', last(series.used)],
    [live ? 'on disk now' : 'on disk at the end', last(series.spilled)],
    ['spilled in total', series.spilled_total],
    ['reloaded in total', series.reloaded_total],
    ...(series.kernel == null ? [] : ([[live ? 'kept in the kernel now' : 'kept in the kernel at the end', series.kernel]] as [string, number][])),
    ...(series.device_memory
      ? ([
          [live ? 'on GPUs now' : 'on GPUs at the end', series.device],
          ['memory of GPUs', series.device_memory]
        ] as [string, number][])
      : []),
    ...(groups ? [['from other hosts', received(groups.hosts)] as [string, number]] : [])
  ];
  const width = Math.max(220, el.clientWidth || 640);
  const spilled = Math.max(...series.spilled);
  morph(el, [
    legend(series.limit ? [...CURVES, ['limit', 'limit', 'jm-limit']] : CURVES),
    chart(series, until, CURVES, series.limit, HEIGHT, width, `memory over ${seconds(span(series))}: peak ${bytes(series.peak)}`),
    spilled ? legend(ON_DISK) : null,
    spilled ? chart(series, until, ON_DISK, 0, DISK, width, `chunks on disk over ${seconds(span(series))}: at most ${bytes(spilled)}, ${bytes(last(series.spilled))} at the end`) : null,
    h('dl', { class: 'jm-facts' }, ...facts.map(([word, value]) => h('div', { title: meaning(word) }, h('dt', {}, word), h('dd', {}, word === 'limit' && !value ? 'none' : bytes(value))))),
    ...(groups ? hostsTable(groups) : [])
  ]);
}

type Curves = readonly (readonly [string, string, string])[]; // field of Series, words, class

function legend(curves: Curves): HTMLElement {
  return h('ul', { class: 'jm-legend' }, ...curves.map(([, word, name]) => h('li', { title: meaning(word) }, h('i', { class: `jm-key ${name}`, 'aria-hidden': 'true' }), word)));
}

/** A panel with curves over time and the area below the last curve. */
function chart(series: Series, until: number, curves: Curves, limit: number, height: number, width: number, label: string): SVGElement {
  const end = Math.max(span(series), until);
  const values = (name: string) => series[name as 'used'];
  const most = nice(Math.max(1, limit, ...curves.flatMap(([name]) => values(name))));
  const x = (t: number) => LEFT + ((width - LEFT - RIGHT) * t) / end;
  const y = (v: number) => height - BOTTOM - ((height - TOP - BOTTOM) * v) / most;
  const path = (values: number[]) => values.map((v, i) => `${i ? 'L' : 'M'}${x(series.t[i]).toFixed(1)} ${y(v).toFixed(1)}`).join('');
  const grid = (height < HEIGHT ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).map(share => {
    const at = y(most * share);
    return s(
      'g',
      {},
      s('path', { class: 'jm-grid', d: `M${LEFT} ${at.toFixed(1)}H${width - RIGHT}` }),
      s('text', { x: LEFT - 8, y: (at + 4).toFixed(1), 'text-anchor': 'end' }, bytes(most * share))
    );
  });
  const ticks = [0, 0.5, 1].map((share, i) =>
    s('text', { x: x(end * share).toFixed(1), y: height - 7, 'text-anchor': ['start', 'middle', 'end'][i] }, tick(end * share, end))
  );
  const floor = `L${x(last(series.t)).toFixed(1)} ${y(0).toFixed(1)}L${x(series.t[0]).toFixed(1)} ${y(0).toFixed(1)}Z`;
  const line = limit ? s('path', { class: 'jm-curve jm-limit', d: `M${LEFT} ${y(limit).toFixed(1)}H${width - RIGHT}` }) : null;
  const [filled, , style] = curves[curves.length - 1];
  return s(
    'svg',
    { class: 'jm-chart', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label },
    ...grid,
    ...ticks,
    s('path', { class: `jm-area ${style}`, d: path(values(filled)) + floor }),
    ...curves.map(([name, , curve]) => s('path', { class: `jm-curve ${curve}`, d: path(values(name)) })),
    line
  );
}

const span = (series: Series) => Math.max(last(series.t), 1e-9); // seconds
const last = (values: number[]) => (values.length ? Number(values[values.length - 1]) : 0);

/** The next power of two, or 1.5 times a power of two, so that quarters are round numbers of bytes. */
function nice(value: number): number {
  const power = 2 ** Math.ceil(Math.log2(value));
  return value <= 0.75 * power ? 0.75 * power : power;
}
