// Draws the time line of each worker: above the baseline calculating and storing, below it waiting for memory and reloading
// inputs. SVG with a path per state and lane, in real pixels. Running operands are an open piece, which ends now. Lanes of
// several hosts stand below the headings of their hosts, which have marks where chunks came from other hosts.
import { bytes, count, fine, plural, seconds, tick } from '../model/format';
import { Group, Groups, hostTitle } from '../model/hosts';
import { BUSY, busyShares, LaneRow, laneRows, WAIT, workerName } from '../model/lane_rows';
import { isLit } from '../model/lines';
import { Lane, Lanes, Series, WorkerRow } from '../model/view';
import { meaning } from '../model/words';
import { h, morph, s } from './dom';
import { moreHosts } from './host_rows';

const LEFT = 82; // least width of the names
const LETTER = 6.2; // pixels of a letter of a name
const GAP = 8; // between a name and its lane
const RIGHT = 14;
const TOP = 4;
const BOTTOM = 22;
const BIN = 4; // pixels of a step of the lane of a closed host
const MARK = 6; // height of a mark of arrived chunks
const WORDS = ['waiting for memory', 'reloading inputs', 'calculating', 'storing']; // of WORKER_STATES
const ARRIVED = 'from other hosts';
const LEAST = 0.7; // least width of a piece in pixels, so that it is visible

/** Where the time line stands: pixels of a time, and times of pixels. */
interface Axis {
  width: number;
  left: number; // width of the names
  end: number; // seconds
  x(t: number): number;
}

function axisOf(el: HTMLElement, rows: LaneRow[], lanes: Lanes, series: Series | null, elapsed: number, until: number): Axis {
  const width = Math.max(180, el.clientWidth || 640);
  const longest = rows.reduce((most, row) => (row.heading ? most : Math.max(most, row.name.length)), 0);
  const left = Math.max(LEFT, Math.min(0.4 * width, GAP + LETTER * longest));
  const end = Math.max(1e-6, until, Number(elapsed) || 0, ...lanes.lanes.map(lane => last(lane.end)), last(series?.t || []));
  return { width, left, end, x: t => left + ((width - left - RIGHT) * Math.min(Math.max(Number(t) || 0, 0), end)) / end };
}

/** The name of a lane; of a name that is too long the end, and the whole where one points. */
function nameOf({ name }: LaneRow, base: number, left: number): SVGElement {
  const fits = Math.floor((left - GAP) / LETTER);
  const isLong = name.length > fits + 1;
  return s('text', { x: left - GAP, y: base - 4, 'text-anchor': 'end' }, isLong ? s('title', {}, name) : null, isLong ? `…${name.slice(1 - fits)}` : name);
}

/** Draws the lanes; `el` keeps a line about the piece under the pointer. */
export function drawLanes(el: HTMLElement, lanes: Lanes | null, workers: WorkerRow[], groups: Groups | null, series: Series | null, elapsed: number, focus: number[] = [], until = 0): void {
  if (!lanes || !lanes.lanes.length) {
    morph(el, []);
    return;
  }
  const found = laneRows(lanes, workers, groups, TOP);
  const axis = axisOf(el, found, lanes, series, elapsed, until);
  const { width, end, x } = axis;
  const height = found.reduce((sum, row) => sum + row.height, TOP) + BOTTOM;
  const rows = found.map((row, i) => (row.heading ? heading(row, row.heading, axis, end) : row.share ? shareLane(row, axis, elapsed) : workerLane(row, row.lane!, i, axis, elapsed, lanes, focus)));
  const shares = width < 460 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]; // as many as do not touch
  const ticks = shares.map(share =>
    s('text', { x: x(end * share).toFixed(1), y: height - 6, 'text-anchor': share === 0 ? 'start' : share === 1 ? 'end' : 'middle' }, tick(end * share, end))
  );
  const told = el.querySelector('.jm-told')?.textContent || '';
  const key = (word: string, name: string) => h('li', { title: meaning(word) }, h('i', { class: `jm-swatch ${name}`, 'aria-hidden': 'true' }), word);
  const arrived = groups?.listed.some(({ host }) => host.begin.length);
  morph(el, [
    h('h4', {}, 'Time line of each worker'),
    h('ul', { class: 'jm-legend' }, ...WORDS.map((word, state) => key(word, `jm-t${state}`)), key('still running', 'jm-t2 jm-open'), arrived ? key(ARRIVED, 'jm-t4') : null),
    s('svg', { class: 'jm-chart jm-lanes', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': summary(found, lanes, workers) }, ...rows, ...ticks),
    groups && moreHosts(groups),
    h('p', { class: 'jm-note jm-told' }, told || 'Point at a piece to see its operands.')
  ]);
}

function workerLane(row: LaneRow, lane: Lane, i: number, { x, width, left }: Axis, elapsed: number, lanes: Lanes, focus: number[]): SVGElement {
  const base = row.top + BUSY;
  return s(
    'g',
    { 'data-lane': i },
    nameOf(row, base, left),
    s('path', { class: 'jm-grid', d: `M${left} ${base + 0.5}H${width - RIGHT}` }),
    ...[false, true].flatMap(lit => paths(lane, base, x, at => isLit(lanes, lane.lines?.[at], focus) === lit).map((d, state) => (d ? s('path', { class: `jm-lane jm-t${state}${lit ? '' : ' jm-faint'}`, d }) : null))),
    ...(lane.open ? [s('rect', { class: 'jm-lane jm-t2 jm-open', x: x(lane.open.begin).toFixed(1), y: base - BUSY, width: Math.max(LEAST, x(elapsed) - x(lane.open.begin)).toFixed(1), height: BUSY })] : [])
  );
}

/** The heading of a host: its name, marks of chunks that came from other hosts, and a cross where it was lost. */
function heading({ top, height }: LaneRow, { host, open }: Group, { x, width }: Axis, end: number): SVGElement {
  const lost = host.state === 'lost';
  const at = x(Math.min(host.since, end));
  const middle = top + height - MARK / 2 - 1;
  const marks = host.begin.map((begin, i) => `M${x(begin).toFixed(1)} ${top + height - MARK - 1}h${Math.max(2, x(host.end[i]) - x(begin)).toFixed(1)}v${MARK}H${x(begin).toFixed(1)}z`);
  return s(
    'g',
    { class: 'jm-hostline', 'data-host': host.name, 'data-state': host.state },
    s('title', {}, hostTitle(host)),
    s('rect', { class: 'jm-shade', x: 0, y: top, width, height: height - 1 }),
    s('text', { x: 4, y: top + 13 }, open ? '▾ ' : '▸ ', s('tspan', { class: 'jm-hostname' }, host.name), host.state === 'joined' ? '' : ` ${host.state}`),
    marks.length ? s('path', { class: 'jm-lane jm-t4', d: marks.join('') }) : null,
    lost ? s('path', { class: 'jm-cross', d: `M${at - 4} ${middle - 4}l8 8m0 -8l-8 8` }) : null
  );
}

/** The workers of a closed host as one lane: how many of them calculate or store. */
function shareLane(row: LaneRow, axis: Axis, elapsed: number): SVGElement {
  const { width, left } = axis;
  const base = row.top + BUSY;
  const shares = sharesOf(row.share!, axis, elapsed);
  const wide = (width - left - RIGHT) / shares.length;
  const d = shares.map((one, i) => `${i ? 'V' : `M${left} ${base}V`}${(base - BUSY * one).toFixed(1)}H${(left + wide * (i + 1)).toFixed(1)}`).join('');
  return s(
    'g',
    { 'data-host': row.share!.group.host.name },
    nameOf(row, base, left),
    s('path', { class: 'jm-grid', d: `M${left} ${base + 0.5}H${width - RIGHT}` }),
    s('path', { class: 'jm-lane jm-t2', d: `${d}V${base}z` })
  );
}

function sharesOf({ group, lanes }: NonNullable<LaneRow['share']>, { width, left, end }: Axis, elapsed: number): number[] {
  return busyShares(lanes, group.workers.length, end, elapsed, Math.max(1, Math.floor((width - left - RIGHT) / BIN)));
}

/** Path data of the four states of a lane, of the pieces that `has` chooses. */
function paths(lane: Lane, base: number, x: (t: number) => number, has: (at: number) => boolean): string[] {
  const d = ['', '', '', ''];
  const add = (state: number, from: number, to: number, top: number, high: number) => {
    const left = x(from);
    const wide = Math.max(LEAST, x(to) - left);
    d[state] += `M${left.toFixed(1)} ${top}h${wide.toFixed(1)}v${high}h-${wide.toFixed(1)}z`;
  };
  lane.begin.forEach((begin, i) => {
    if (!has(i)) {
      return;
    }
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

/** What `watchLanes` reads of the view. */
export interface Timed {
  lanes: Lanes | null;
  workers: WorkerRow[];
  groups: Groups | null;
  series: Series | null;
  elapsed: number;
  until?: number; // end of the axis, at least
}

/** Tells of the piece under the pointer; a click calls `pick` with the rows of the lines that made its operands. */
export function watchLanes(el: HTMLElement, now: () => Timed, pick: (rows: number[]) => void): void {
  const at = (event: MouseEvent): [number, number] | null => {
    const box = el.querySelector('svg')?.getBoundingClientRect();
    return box ? [event.clientX - box.left, event.clientY - box.top] : null;
  };
  el.addEventListener('mousemove', event => {
    const place = at(event);
    const told = el.querySelector('.jm-told');
    const { lanes, workers, groups, series, elapsed, until } = now();
    const text = place && told && lanes ? pieceAt(el, lanes, workers, groups, series, elapsed, ...place, until) : '';
    if (text) {
      told!.textContent = text;
    }
  });
  el.addEventListener('click', event => {
    const place = at(event);
    const { lanes, workers, groups, series, elapsed, until } = now();
    const rows = place && lanes ? linesAt(el, lanes, workers, groups, series, elapsed, ...place, until) : [];
    if (rows.length) {
      pick(rows);
    }
  });
}

/** Rows of the lines that made the piece at a place; empty where there is none. */
function linesAt(el: HTMLElement, lanes: Lanes, workers: WorkerRow[], groups: Groups | null, series: Series | null, elapsed: number, px: number, py: number, until = 0): number[] {
  const rows = laneRows(lanes, workers, groups, TOP);
  const { width, left, end } = axisOf(el, rows, lanes, series, elapsed, until);
  const lane = rows.find(one => py >= one.top && py < one.top + one.height)?.lane;
  const second = end / (width - left - RIGHT); // of a pixel
  const found = lane && px >= left - 2 ? nearest(lane, (px - left) * second, 2 * second) : -1;
  return found < 0 ? [] : lanes.lines?.[lane!.lines?.[found] ?? -1] ?? [];
}

/** Describes the piece under the pointer; "" if there is none. */
export function pieceAt(el: HTMLElement, lanes: Lanes, workers: WorkerRow[], groups: Groups | null, series: Series | null, elapsed: number, px: number, py: number, until = 0): string {
  const rows = laneRows(lanes, workers, groups, TOP);
  const axis = axisOf(el, rows, lanes, series, elapsed, until);
  const row = rows.find(one => py >= one.top && py < one.top + one.height);
  if (!row || px < axis.left - 2) {
    return '';
  }
  const second = axis.end / (axis.width - axis.left - RIGHT); // of a pixel
  const t = (px - axis.left) * second;
  if (row.heading) {
    return arrivalAt(row.heading, t, 2 * second);
  }
  if (row.share) {
    const shares = sharesOf(row.share, axis, elapsed);
    const { host, workers: all } = row.share.group;
    const share = shares[Math.min(shares.length - 1, Math.max(0, Math.floor((t / axis.end) * shares.length)))];
    return `${host.name}, at ${seconds(t)}: ${(share * all.length).toFixed(1)} of ${plural(all.length, 'worker')} calculate or store`;
  }
  return operandsAt(row.lane!, lanes, workers, elapsed, t, 2 * second);
}

function arrivalAt({ host }: Group, t: number, slack: number): string {
  const found = host.begin.findIndex((begin, i) => t >= begin - slack && t <= host.end[i] + slack);
  return found < 0 ? '' : `${host.name}, ${seconds(host.begin[found])} to ${seconds(host.end[found])}: ${bytes(host.nbytes[found])} came from other hosts`;
}

/** The piece of a lane at a time: one that calculates or stores, else one that waits for memory or inputs; -1 for none. */
function nearest(lane: Lane, t: number, slack: number): number {
  let found = lane.begin.findIndex((begin, i) => t <= begin && t >= begin - (lane.took[i]?.[0] || 0) - (lane.took[i]?.[1] || 0));
  let near = slack;
  lane.begin.forEach((begin, i) => {
    const off = t < begin ? begin - t : t > lane.end[i] ? t - lane.end[i] : 0;
    if (off < near) {
      near = off;
      found = i;
    }
  });
  return found;
}

function operandsAt(lane: Lane, lanes: Lanes, workers: WorkerRow[], elapsed: number, t: number, slack: number): string {
  const found = nearest(lane, t, slack);
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

/** "rand+add", or "3 operands rand+add" of a piece. */
function operands(lanes: Lanes, n: number, label: number): string {
  const name = lanes.labels[label] || '';
  return Number(n) === 1 ? name || 'one operand' : `${count(n)} operands${name ? ` ${name}` : ''}`;
}

/** The rows in words: sums of the states of each lane. */
function summary(rows: LaneRow[], lanes: Lanes, workers: WorkerRow[]): string {
  return rows
    .map(({ lane, heading, share }) => (heading ? hostTitle(heading.host) : lane ? `${workerName(lane, workers)}: ${laneText([lane], lanes)}` : `${plural(share!.lanes.length, 'worker')}: ${laneText(share!.lanes, lanes)}`))
    .join('; ');
}

function laneText(some: Lane[], lanes: Lanes): string {
  const sums = WORDS.map((name, state) => [name, some.reduce((all, lane) => all + lane.took.reduce((sum, took) => sum + (Number(took[state]) || 0), 0), 0)] as const);
  const parts = sums.filter(([, sum]) => sum >= 1e-4).map(([name, sum]) => `${name} ${fine(sum)}`);
  parts.push(...some.flatMap(({ open }) => (open ? [`${operands(lanes, open.n, open.label)} running since ${seconds(open.begin)}`] : [])));
  return parts.join(', ') || 'nothing';
}

const last = (values: number[]) => values.reduce((most, value) => Math.max(most, Number(value) || 0), 0);
