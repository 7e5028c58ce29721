// Draws the time line of each worker: above the baseline calculating and storing, below it waiting for memory and reloading
// inputs. SVG with a path per state and lane, in real pixels. Running operands are an open piece, which ends now.
import { count, fine, seconds } from '../model/format';
import { Lane, Lanes, Series, WorkerRow } from '../model/view';
import { meaning } from '../model/words';
import { h, morph, s } from './dom';

const LEFT = 82;
const RIGHT = 14;
const TOP = 4;
const BUSY = 18; // pixels of calculating and storing
const WAIT = 6; // pixels of waiting and reloading
const LANE = BUSY + WAIT + 10;
const BOTTOM = 22;
const WORDS = ['waiting for memory', 'reloading inputs', 'calculating', 'storing']; // of WORKER_STATES
const LEAST = 0.7; // least width of a piece in pixels, so that it is visible

/** Draws the lanes; `el` keeps a line about the piece under the pointer. */
export function drawLanes(el: HTMLElement, lanes: Lanes | null, workers: WorkerRow[], series: Series | null, elapsed: number): void {
  if (!lanes || !lanes.lanes.length) {
    morph(el, []);
    return;
  }
  const width = Math.max(220, el.clientWidth || 640);
  const end = Math.max(1e-6, Number(elapsed) || 0, ...lanes.lanes.map(lane => last(lane.end)), last(series?.t || []));
  const x = (t: number) => LEFT + ((width - LEFT - RIGHT) * Math.min(Math.max(Number(t) || 0, 0), end)) / end;
  const height = TOP + lanes.lanes.length * LANE + BOTTOM;
  const rows = lanes.lanes.map((lane, i) => {
    const base = TOP + i * LANE + BUSY;
    return s(
      'g',
      { 'data-lane': i },
      s('text', { x: LEFT - 8, y: base - 4, 'text-anchor': 'end' }, workerName(lane, workers)),
      s('path', { class: 'jm-grid', d: `M${LEFT} ${base + 0.5}H${width - RIGHT}` }),
      ...paths(lane, base, x).map((d, state) => (d ? s('path', { class: `jm-lane jm-t${state}`, d }) : null)).filter((one): one is SVGElement => one !== null),
      ...(lane.open ? [s('rect', { class: 'jm-lane jm-t2 jm-open', x: x(lane.open.begin).toFixed(1), y: base - BUSY, width: Math.max(LEAST, x(elapsed) - x(lane.open.begin)).toFixed(1), height: BUSY })] : [])
    );
  });
  const shares = width < 460 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]; // as many as do not touch
  const ticks = shares.map(share =>
    s('text', { x: x(end * share).toFixed(1), y: height - 6, 'text-anchor': share === 0 ? 'start' : share === 1 ? 'end' : 'middle' }, seconds(end * share))
  );
  const told = el.querySelector('.jm-told')?.textContent || '';
  morph(el, [
    h('h4', {}, 'Time line of each worker'),
    h('ul', { class: 'jm-legend' }, ...WORDS.map((word, state) => h('li', { title: meaning(word) }, h('i', { class: `jm-swatch jm-t${state}`, 'aria-hidden': 'true' }), word)), h('li', { title: meaning('still running') }, h('i', { class: 'jm-swatch jm-t2 jm-open', 'aria-hidden': 'true' }), 'still running')),
    s('svg', { class: 'jm-chart jm-lanes', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': summary(lanes, workers) }, ...rows, ...ticks),
    h('p', { class: 'jm-note jm-told' }, told || 'Point at a piece to see its operands.')
  ]);
}

/** Path data of the four states of a lane. */
function paths(lane: Lane, base: number, x: (t: number) => number): string[] {
  const d = ['', '', '', ''];
  const add = (state: number, from: number, to: number, top: number, high: number) => {
    const left = x(from);
    const wide = Math.max(LEAST, x(to) - left);
    d[state] += `M${left.toFixed(1)} ${top}h${wide.toFixed(1)}v${high}h-${wide.toFixed(1)}z`;
  };
  lane.begin.forEach((begin, i) => {
    const took = lane.took[i] || [];
    const busy = (took[2] || 0) + (took[3] || 0);
    const span = Math.max(lane.end[i] - begin, 1e-9);
    const scale = Math.min(1, span / Math.max(busy, 1e-12)); // the rest of a merged piece is idle
    const stores = begin + (took[2] || 0) * scale;
    if (took[2]) {
      add(2, begin, stores, base - BUSY, BUSY);
    }
    if (took[3]) {
      add(3, stores, stores + took[3] * scale, base - BUSY, BUSY);
    }
    if (took[1]) {
      add(1, begin - took[1], begin, base + 2, WAIT);
    }
    if (took[0]) {
      add(0, begin - (took[1] || 0) - took[0], begin - (took[1] || 0), base + 2, WAIT);
    }
  });
  return d;
}

/** Describes the piece under the pointer; "" if there is none. */
export function pieceAt(el: HTMLElement, lanes: Lanes, workers: WorkerRow[], series: Series | null, elapsed: number, px: number, py: number): string {
  const width = Math.max(220, el.clientWidth || 640);
  const end = Math.max(1e-6, Number(elapsed) || 0, ...lanes.lanes.map(lane => last(lane.end)), last(series?.t || []));
  const at = Math.floor((py - TOP) / LANE);
  const lane = lanes.lanes[at];
  if (!lane || px < LEFT - 2) {
    return '';
  }
  const t = ((px - LEFT) / (width - LEFT - RIGHT)) * end;
  const slack = (2 / (width - LEFT - RIGHT)) * end;
  let found = -1;
  let near = slack;
  lane.begin.forEach((begin, i) => {
    const off = t < begin ? begin - t : t > lane.end[i] ? t - lane.end[i] : 0;
    if (off < near || (off === near && found < 0)) {
      near = off;
      found = i;
    }
  });
  if (lane.open && t >= lane.open.begin - slack && t <= elapsed + slack && (found < 0 || t >= lane.open.begin)) {
    const { begin, n, label } = lane.open;
    return `${workerName(lane, workers)}, since ${seconds(begin)}: ${operands(lanes, n, label)}, running for ${fine(elapsed - begin)}${n > 1 ? ', one after the other' : ''}`;
  }
  if (found < 0) {
    return '';
  }
  const what = operands(lanes, lane.n[found], lane.label[found]);
  const times = WORDS.map((word, state) => (lane.took[found][state] >= 1e-6 ? `${word} ${fine(lane.took[found][state])}` : '')).filter(Boolean);
  return `${workerName(lane, workers)}, ${seconds(lane.begin[found])} to ${seconds(lane.end[found])}: ${what} (${times.join(', ')})`;
}

const workerName = (lane: Lane, workers: WorkerRow[]) => workers[lane.worker]?.name ?? `worker-${Number(lane.worker)}`;

/** "rand+add", or "3 operands rand+add" of a piece. */
function operands(lanes: Lanes, n: number, label: number): string {
  const name = lanes.labels[label] || '';
  return Number(n) === 1 ? name || 'one operand' : `${count(n)} operands${name ? ` ${name}` : ''}`;
}

function summary(lanes: Lanes, workers: WorkerRow[]): string {
  return lanes.lanes
    .map(lane => {
      const sums = WORDS.map((name, state) => [name, lane.took.reduce((sum, took) => sum + (Number(took[state]) || 0), 0)] as const);
      const parts = sums.filter(([, sum]) => sum >= 1e-4).map(([name, sum]) => `${name} ${fine(sum)}`);
      parts.push(...(lane.open ? [`${operands(lanes, lane.open.n, lane.open.label)} running since ${seconds(lane.open.begin)}`] : []));
      return `${workerName(lane, workers)}: ${parts.join(', ') || 'nothing'}`;
    })
    .join('; ');
}

const last = (values: number[]) => values.reduce((most, value) => Math.max(most, Number(value) || 0), 0);
