// Draws a graph on a canvas. The layout is computed only when the graph or the width changes, and arrows are kept as an
// image, so that a frame only paints boxes.
import { count } from '../model/format';
import { Boxes, Opened, PRUNED } from '../model/picture';
import { Geometry, geometry, Marks } from '../model/geometry';
import { BAR_ORDER, N_STATES } from '../model/states';
import { BoxGraph } from '../model/view';

export interface GraphData {
  layer: BoxGraph;
  named: boolean; // boxes with names
  boxes: Boxes;
  byWorker: boolean; // hue by worker instead of by state
  worker: number; // the worker to highlight, -1 none
  selected: number; // -1 none
  mark: number; // the selected mark of the open box, -1 none
  open: number; // the open box, -1 none
  opened: Opened | null; // the marks of the open box
  opens: (box: number) => boolean; // whether a box can be opened
  lit: boolean[] | null; // boxes of the marked lines of the cell; the others are drawn faint
  marked: number[]; // boxes that correspond to the selected box of the other graph
}

interface Kept {
  layer: BoxGraph;
  place: Geometry;
  arrows: HTMLCanvasElement | null;
  theme: number;
}

export interface Palette {
  theme: number; // grows when the theme changes
  states: string[];
  workers: string[];
  text: string;
  dim: string;
  box: string;
  line: string;
  mark: string;
}

const kept = new WeakMap<HTMLCanvasElement, Kept>();

/** The geometry of `canvas`; undefined before the first drawing. */
export function placeOf(canvas: HTMLCanvasElement): Geometry | undefined {
  return kept.get(canvas)?.place;
}

/** Colours of the theme around `el`. */
export function palette(el: Element, theme: number): Palette {
  const style = getComputedStyle(el);
  const get = (name: string, fallback: string) => style.getPropertyValue(name).trim() || fallback;
  return {
    theme,
    states: Array.from({ length: N_STATES }, (_, i) => get(`--jm-s${i}`, '#888')),
    workers: Array.from({ length: 8 }, (_, i) => get(`--jm-w${i}`, '#888')),
    text: get('--jm-text', '#111'),
    dim: get('--jm-dim', '#555'),
    box: get('--jm-box', '#f4f4f4'),
    line: get('--jm-edge', '#999'),
    mark: get('--jm-mark', '#1976d2')
  };
}

export function drawGraph(canvas: HTMLCanvasElement, data: GraphData, colours: Palette): void {
  const width = Math.floor(canvas.parentElement?.clientWidth || 0);
  if (width < 40) {
    return; // hidden: drawn when its tab is opened
  }
  let known = kept.get(canvas);
  const marks = data.opened?.states.length ?? 0;
  const open = marks ? data.open : -1;
  if (!known || known.layer !== data.layer || known.place.width !== width || known.place.named !== data.named || (known.place.opened?.box ?? -1) !== open || (known.place.opened?.n ?? 0) !== marks) {
    known = { layer: data.layer, place: geometry(data.layer, width, data.named, open, marks), arrows: null, theme: -1 };
    kept.set(canvas, known);
  }
  const { place } = known;
  const ratio = Math.min(window.devicePixelRatio || 1, 4);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(place.height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(place.height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${place.height}px`;
    known.arrows = null;
  }
  const pen = canvas.getContext('2d');
  if (!pen) {
    return; // a page without canvas: the tables show the same data
  }
  if (!known.arrows || known.theme !== colours.theme) {
    known.arrows = drawArrows(canvas, data.layer, place, ratio, colours);
    known.theme = colours.theme;
  }
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  if (known.arrows) {
    pen.drawImage(known.arrows, 0, 0);
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  (place.named ? drawNamed : drawMarks)(pen, data, place, colours);
  pen.globalAlpha = 1;
  pen.lineWidth = 2;
  pen.strokeStyle = colours.mark;
  for (const i of data.marked) {
    outline(pen, place, i, 1.5);
  }
  if (place.opened && data.opened) {
    drawOpened(pen, data, data.opened, place.opened, colours);
  }
  if (data.selected >= 0 && data.selected < data.layer.n && data.mark < 0) {
    pen.lineWidth = 2.5;
    outline(pen, place, data.selected, 2);
  }
}

/** Draws the marks of the open box. */
function drawOpened(pen: CanvasRenderingContext2D, data: GraphData, opened: Opened, place: Marks, colours: Palette): void {
  opened.states.forEach((state, i) => {
    const [x, y] = [place.left + (i % place.columns) * place.pitch, place.top + Math.floor(i / place.columns) * place.pitch];
    const worker = opened.workers[i]; // + 1
    pen.globalAlpha = data.worker >= 0 && worker - 1 !== data.worker ? 0.2 : data.byWorker ? BY_WORKER[state] ?? 1 : 1;
    pen.fillStyle = data.byWorker && worker ? colours.workers[(worker - 1) % 8] : colours.states[state] || colours.states[0];
    pen.fillRect(x, y, place.size, place.size);
    if (i === data.mark) {
      pen.globalAlpha = 1;
      pen.lineWidth = 2;
      pen.strokeStyle = colours.text;
      pen.strokeRect(x - 0.5, y - 0.5, place.size + 1, place.size + 1);
    }
  });
  pen.globalAlpha = 1;
  pen.strokeStyle = colours.mark;
}

function outline(pen: CanvasRenderingContext2D, place: Geometry, i: number, gap: number): void {
  pen.strokeRect(place.x[i] - gap, place.y[i] - gap, place.w[i] + 2 * gap, place.h[i] + 2 * gap);
}

function drawArrows(canvas: HTMLCanvasElement, layer: BoxGraph, place: Geometry, ratio: number, colours: Palette): HTMLCanvasElement | null {
  const picture = document.createElement('canvas');
  picture.width = canvas.width;
  picture.height = canvas.height;
  const pen = picture.getContext('2d');
  if (!pen) {
    return null;
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.strokeStyle = pen.fillStyle = colours.line;
  pen.lineWidth = place.named ? 1.2 : 0.7;
  pen.globalAlpha = layer.src.length > 3000 ? 0.35 : 0.8;
  pen.beginPath();
  for (let e = 0; e < layer.src.length; e++) {
    const [a, b] = [layer.src[e], layer.dst[e]];
    if (place.named) {
      const [ax, ay] = [place.x[a] + place.w[a] / 2, place.y[a] + place.h[a]];
      const [bx, by] = [place.x[b] + place.w[b] / 2, place.y[b]];
      const bend = Math.max(8, Math.abs(by - ay) / 2);
      pen.moveTo(ax, ay);
      pen.bezierCurveTo(ax, ay + bend, bx, by - bend - 4, bx, by - 4);
    } else {
      const [ax, ay] = [place.x[a] + place.w[a], place.y[a] + place.h[a] / 2];
      const [bx, by] = [place.x[b], place.y[b] + place.h[b] / 2];
      const middle = (ax + bx) / 2;
      pen.moveTo(ax, ay);
      pen.bezierCurveTo(middle, ay, middle, by, bx, by);
    }
  }
  pen.stroke();
  if (place.named) {
    for (const b of new Set(layer.dst)) {
      const [bx, by] = [place.x[b] + place.w[b] / 2, place.y[b]];
      pen.beginPath();
      pen.moveTo(bx, by - 0.5);
      pen.lineTo(bx - 3.5, by - 6);
      pen.lineTo(bx + 3.5, by - 6);
      pen.fill();
    }
  }
  return picture;
}

/** The hue of a box. */
function hue(data: GraphData, colours: Palette, i: number): string {
  const ran = data.boxes.workers?.[i] || 0;
  if (data.byWorker && data.boxes.workers) {
    return ran ? colours.workers[(ran - 1) % 8] : colours.states[0];
  }
  return colours.states[data.boxes.states?.[i] ?? 0] || colours.states[0];
}

const BY_WORKER = [0.35, 0.6, 1, 1, 0.75, 1, 0.6, 0.35, 1];

/** Opacity of a box that no marked line made. */
const faint = (data: GraphData, i: number) => (data.lit && !data.lit[i] ? 0.2 : 1);

/** Opacity of a box: with hues by worker, opacity shows the state. */
function strength(data: GraphData, i: number): number {
  const state = data.boxes.states?.[i] ?? 0;
  const out = data.worker >= 0 && (data.boxes.workers?.[i] || 0) - 1 !== data.worker;
  const plain = data.byWorker ? BY_WORKER[state] ?? 0.35 : 1;
  return (out ? plain * 0.2 : plain) * faint(data, i);
}

function drawMarks(pen: CanvasRenderingContext2D, data: GraphData, place: Geometry, colours: Palette): void {
  for (let i = 0; i < data.layer.n; i++) {
    if (data.boxes.states?.[i] === PRUNED) {
      pen.globalAlpha = 0.6;
      pen.lineWidth = 0.8;
      pen.strokeStyle = colours.line;
      pen.strokeRect(place.x[i] + 0.5, place.y[i] + 0.5, place.w[i] - 1, Math.max(0.5, place.h[i] - 1));
      continue;
    }
    pen.globalAlpha = strength(data, i);
    pen.fillStyle = hue(data, colours, i);
    pen.fillRect(place.x[i], place.y[i], place.w[i], place.h[i]);
    if (data.byWorker && data.boxes.states?.[i] === 2) {
      pen.fillStyle = colours.text; // running: a point in the worker's hue
      pen.fillRect(place.x[i] + place.w[i] / 2 - 1, place.y[i] + place.h[i] / 2 - 1, 2, 2);
    }
  }
}

function drawNamed(pen: CanvasRenderingContext2D, data: GraphData, place: Geometry, colours: Palette): void {
  pen.font = '11px system-ui, sans-serif';
  pen.textBaseline = 'middle';
  for (let i = 0; i < data.layer.n; i++) {
    const [x, y, w, h] = [place.x[i], place.y[i], place.w[i], place.h[i]];
    pen.globalAlpha = (data.boxes.states?.[i] === PRUNED ? 0.45 : 1) * faint(data, i);
    pen.fillStyle = colours.box;
    pen.fillRect(x, y, w, h);
    pen.lineWidth = 1;
    pen.strokeStyle = colours.line;
    pen.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    drawProgress(pen, data, colours, i, x + 1, y + h - 8, w - 2, 7);
    const size = data.layer.size[i] > 1 ? `×${count(data.layer.size[i])}` : '';
    const isOpen = place.opened?.box === i;
    const chevron = data.opens(i) ? (isOpen ? '▾' : '▸') : '';
    const left = chevron ? 18 : 6;
    const room = w - left - 6 - (size ? pen.measureText(size).width + 6 : 0);
    const middle = isOpen ? y + 11.5 : y + (h - 7) / 2;
    pen.globalAlpha = Math.max(0.45, faint(data, i));
    pen.fillStyle = colours.dim;
    pen.textAlign = 'left';
    pen.fillText(chevron, x + 6, middle);
    pen.fillStyle = colours.text;
    pen.fillText(fit(pen, data.layer.labels[data.layer.label[i]] || '', room), x + left, middle);
    if (size && room > 20) {
      pen.fillStyle = colours.dim;
      pen.textAlign = 'right';
      pen.fillText(size, x + w - 6, middle);
    }
  }
}

function drawProgress(pen: CanvasRenderingContext2D, data: GraphData, colours: Palette, i: number, x: number, y: number, w: number, h: number): void {
  const counts = data.boxes.counts?.subarray(i * N_STATES, (i + 1) * N_STATES);
  if (!counts) {
    if (data.boxes.states?.[i] !== PRUNED) {
      pen.globalAlpha = strength(data, i);
      pen.fillStyle = hue(data, colours, i);
      pen.fillRect(x, y, w, h);
    }
    return;
  }
  const all = counts.reduce((a, b) => a + b, 0) || 1;
  for (const state of BAR_ORDER) {
    const part = (w * counts[state]) / all;
    pen.fillStyle = colours.states[state];
    pen.fillRect(x, y, part, h);
    x += part;
  }
}

/** `text` cut to `room` pixels. */
export function fit(pen: Pick<CanvasRenderingContext2D, 'measureText'>, text: string, room: number): string {
  if (pen.measureText(text).width <= room) {
    return text;
  }
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(text.slice(0, middle) + '…').width <= room) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low ? text.slice(0, low) + '…' : '';
}
