// Draws memory and spilled bytes over time, as SVG in real pixels.
import { bytes, seconds } from '../model/format';
import { Series } from '../model/view';
import { h, morph, s } from './dom';

const LEFT = 68;
const RIGHT = 14;
const TOP = 10;
const BOTTOM = 24;
const HEIGHT = 190;
const CURVES = [
  ['resident', 'all processes and chunks', 'jm-resident'],
  ['used', 'chunks and scratch', 'jm-used'],
  ['spilled', 'chunks on disk', 'jm-spilled']
] as const;

export function drawMemory(el: HTMLElement, series: Series | null, live: boolean): void {
  if (!series || series.t.length === 0) {
    morph(el, [h('p', { class: 'jm-note' }, 'No memory has been measured yet.')]);
    return;
  }
  const facts: [string, number][] = [
    ['peak of the cluster', series.peak],
    ['limit', series.limit],
    [live ? 'chunks and scratch now' : 'chunks and scratch at the end', last(series.used)],
    [live ? 'on disk now' : 'on disk at the end', last(series.spilled)],
    ['spilled in total', series.spilled_total],
    ['reloaded in total', series.reloaded_total]
  ];
  morph(el, [
    h(
      'ul',
      { class: 'jm-legend' },
      ...CURVES.map(([, word, name]) => h('li', {}, h('i', { class: `jm-key ${name}`, 'aria-hidden': 'true' }), word)),
      series.limit ? h('li', {}, h('i', { class: 'jm-key jm-limit', 'aria-hidden': 'true' }), 'limit') : null
    ),
    chart(series, Math.max(220, el.clientWidth || 640)),
    h('dl', { class: 'jm-facts' }, ...facts.map(([word, value]) => h('div', {}, h('dt', {}, word), h('dd', {}, word === 'limit' && !value ? 'none' : bytes(value)))))
  ]);
}

function chart(series: Series, width: number): SVGElement {
  const end = Math.max(last(series.t), 1e-9);
  const most = nice(Math.max(1, series.limit, ...series.resident, ...series.used, ...series.spilled));
  const x = (t: number) => LEFT + ((width - LEFT - RIGHT) * t) / end;
  const y = (v: number) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * v) / most;
  const path = (values: number[]) => values.map((v, i) => `${i ? 'L' : 'M'}${x(series.t[i]).toFixed(1)} ${y(v).toFixed(1)}`).join('');
  const grid = [0, 0.25, 0.5, 0.75, 1].map(share => {
    const at = y(most * share);
    return s(
      'g',
      {},
      s('path', { class: 'jm-grid', d: `M${LEFT} ${at.toFixed(1)}H${width - RIGHT}` }),
      s('text', { x: LEFT - 8, y: (at + 4).toFixed(1), 'text-anchor': 'end' }, bytes(most * share))
    );
  });
  const ticks = [0, 0.5, 1].map((share, i) =>
    s('text', { x: x(end * share).toFixed(1), y: HEIGHT - 7, 'text-anchor': ['start', 'middle', 'end'][i] }, seconds(end * share))
  );
  const floor = `L${x(last(series.t)).toFixed(1)} ${y(0).toFixed(1)}L${x(series.t[0]).toFixed(1)} ${y(0).toFixed(1)}Z`;
  const limit = series.limit ? s('path', { class: 'jm-curve jm-limit', d: `M${LEFT} ${y(series.limit).toFixed(1)}H${width - RIGHT}` }) : null;
  const label = `memory over ${seconds(end)}: peak ${bytes(series.peak)}, ${bytes(last(series.spilled))} on disk at the end`;
  return s(
    'svg',
    { class: 'jm-chart', viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: 'img', 'aria-label': label },
    ...grid,
    ...ticks,
    s('path', { class: 'jm-area', d: path(series.used) + floor }),
    ...CURVES.map(([name, , style]) => s('path', { class: `jm-curve ${style}`, d: path(series[name]) })),
    limit
  );
}

const last = (values: number[]) => (values.length ? Number(values[values.length - 1]) : 0);

/** The next power of two, or 1.5 times a power of two, so that quarters are round numbers of bytes. */
function nice(value: number): number {
  const power = 2 ** Math.ceil(Math.log2(value));
  return value <= 0.75 * power ? 0.75 * power : power;
}
