// Places the boxes of a graph in pixels. Few boxes are drawn with names, in rows from top to bottom, where each layer is a row;
// many boxes are drawn as small marks, in columns from left to right, where a long layer takes several columns.
import { layered } from './layout';
import { BoxGraph } from './view';

export interface Geometry {
  named: boolean; // boxes with names, top to bottom
  width: number;
  height: number;
  x: Float32Array; // left edge
  y: Float32Array; // top edge
  w: Float32Array;
  h: Float32Array;
  order: number[][]; // boxes by row or column, for the arrow keys
  opened: Marks | null;
}

/** An open box: its operands as marks, line by line. */
export interface Marks {
  box: number;
  n: number;
  columns: number;
  left: number;
  top: number;
  pitch: number; // pixels from mark to mark, across and down
  size: number; // pixels of a mark
}

export const NAMED_MAX = 40; // operands; an aggregated graph is always named
const ROW = { height: 30, gap: 16, most: 240, least: 100, between: 10, margin: 8 };
const OPEN = { pitch: 11, size: 9, above: 22, below: 12, beside: 7 }; // pixels around and between the marks of an open box
const MARK = { rows: 48, margin: 10, least: 72, most: 250, pitch: 9 };

/** Most boxes with names that stand in a row. */
const perRow = (width: number) => Math.max(1, Math.floor((width - ROW.margin) / (ROW.least + ROW.between)));

/** Whether boxes with names have room, each layer in a row: a layer in several rows would read as steps one after another. */
export function fitsNamed(graph: BoxGraph, width: number): boolean {
  return graph.n <= NAMED_MAX && layered(graph).order.every(boxes => boxes.length <= perRow(width));
}

/** Places boxes in `width` pixels; `open` is a box of an aggregated graph that shows `marks` marks. */
export function geometry(graph: BoxGraph, width: number, named: boolean, open = -1, marks = 0): Geometry {
  const { order } = layered(graph);
  const wrapped = wrap(order, named ? perRow(width) : rows(order));
  const lines = wrapped.flatMap(boxes => (boxes.includes(open) ? [boxes.filter(box => box !== open), [open]] : [boxes])).filter(boxes => boxes.length);
  const [x, y, w, h] = [0, 1, 2, 3].map(() => new Float32Array(graph.n));
  let height: number;
  let opened: Marks | null = null;
  if (named) {
    let top = ROW.margin;
    lines.forEach(boxes => {
      let high = ROW.height;
      if (boxes[0] === open) {
        const columns = Math.max(1, Math.floor((width - 2 * ROW.margin - 2 * OPEN.beside) / OPEN.pitch));
        opened = { box: open, n: marks, columns, left: ROW.margin + OPEN.beside, top: top + OPEN.above, pitch: OPEN.pitch, size: OPEN.size };
        high = OPEN.above + Math.ceil(marks / columns) * OPEN.pitch + OPEN.below;
      }
      const room = (width - 2 * ROW.margin + ROW.between) / boxes.length - ROW.between;
      const size = boxes[0] === open ? room : Math.min(ROW.most, room);
      boxes.forEach((box, i) => {
        x[box] = ROW.margin + i * (room + ROW.between) + (room - size) / 2;
        y[box] = top;
        w[box] = size;
        h[box] = high;
      });
      top += high + ROW.gap;
    });
    height = top - (lines.length ? ROW.gap : 0) + ROW.margin;
  } else {
    const tallest = Math.max(...lines.map(line => line.length));
    height = Math.max(MARK.least, Math.min(MARK.most, 2 * MARK.margin + tallest * MARK.pitch));
    const column = (width - 2 * MARK.margin) / lines.length;
    const pitch = (height - 2 * MARK.margin) / tallest;
    const across = Math.max(2, Math.min(16, column * 0.5));
    const high = Math.max(1.5, Math.min(8, pitch * 0.72));
    lines.forEach((boxes, col) => {
      const step = Math.max(pitch, Math.min((height - 2 * MARK.margin) / boxes.length, 5 * pitch));
      const top = (height - step * boxes.length) / 2;
      boxes.forEach((box, i) => {
        x[box] = MARK.margin + column * (col + 0.5) - across / 2;
        y[box] = top + step * (i + 0.5) - high / 2;
        w[box] = across;
        h[box] = high;
      });
    });
  }
  return { named, width, height, x, y, w, h, order: lines, opened };
}

/** Number of rows of marks: halved until it fits, so that a layer of half the size takes half the columns. */
function rows(order: number[][]): number {
  let most = Math.max(1, ...order.map(boxes => boxes.length));
  while (most > MARK.rows) {
    most = Math.ceil(most / 2);
  }
  return most;
}

/** Breaks layers into lines of at most `most` boxes. Neighbours go to different lines and so stay beside each other. */
function wrap(order: number[][], most: number): number[][] {
  return order.flatMap(boxes => {
    const lines = Math.ceil(boxes.length / most);
    return Array.from({ length: lines }, (_, line) => boxes.filter((_, i) => i % lines === line));
  });
}

/** The box under a point, -1 for none; marks are easier to hit than they are large. */
export function boxAt(place: Geometry, px: number, py: number): number {
  const slack = place.named ? 0 : 3;
  let best = -1;
  let near = Infinity;
  for (let i = 0; i < place.x.length; i++) {
    const dx = Math.max(place.x[i] - px, 0, px - place.x[i] - place.w[i]);
    const dy = Math.max(place.y[i] - py, 0, py - place.y[i] - place.h[i]);
    const distance = Math.max(dx, dy);
    if (distance <= slack && distance < near) {
      best = i;
      near = distance;
    }
  }
  return best;
}

/** The mark of the open box under a point, -1 for none. */
export function markAt(opened: Marks, px: number, py: number): number {
  const column = Math.floor((px - opened.left) / opened.pitch);
  const row = Math.floor((py - opened.top) / opened.pitch);
  const at = row * opened.columns + column;
  return column >= 0 && column < opened.columns && row >= 0 && at < opened.n ? at : -1;
}

/** The mark that an arrow key leads to from `at`; -1 for other keys. */
export function markBeside(opened: Marks, at: number, key: string): number {
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - opened.columns, ArrowDown: at + opened.columns, Home: 0, End: opened.n - 1 }[key];
  return to === undefined ? -1 : to >= 0 && to < opened.n ? to : at;
}

/** The box that an arrow key leads to from `at`. */
export function neighbour(place: Geometry, at: number, key: string): number {
  if (!place.x.length) {
    return -1;
  }
  if (at < 0) {
    return place.order[0][0];
  }
  const line = place.order.findIndex(boxes => boxes.includes(at));
  const within = place.order[line].indexOf(at);
  const along = place.named ? ['ArrowLeft', 'ArrowRight'] : ['ArrowUp', 'ArrowDown'];
  const across = place.named ? ['ArrowUp', 'ArrowDown'] : ['ArrowLeft', 'ArrowRight'];
  if (key === 'Home' || key === 'End') {
    const end = place.order[key === 'Home' ? 0 : place.order.length - 1];
    return end[0];
  }
  if (along.includes(key)) {
    const next = within + (key === along[1] ? 1 : -1);
    return place.order[line][Math.max(0, Math.min(place.order[line].length - 1, next))];
  }
  if (across.includes(key)) {
    const other = place.order[Math.max(0, Math.min(place.order.length - 1, line + (key === across[1] ? 1 : -1)))];
    const share = (within + 0.5) / place.order[line].length;
    return other[Math.min(other.length - 1, Math.floor(share * other.length))];
  }
  return -1;
}
