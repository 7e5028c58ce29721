// What is known of an operand's chunk and run: index, shape, dtype, seconds and back end.
import { asBytes } from './bytes';
import { fine } from './format';
import type { Side } from './picture';
import { DrawnGraph, Picture } from './view';

/** Back ends by their names in the kernels, in words. */
const BACKENDS: Record<string, string> = {
  llvm: 'machine code',
  numexpr: 'numexpr',
  'numpy-blocked': 'NumPy, block by block',
  numpy: 'NumPy',
  function: 'function call',
  cuda: 'CUDA kernel',
  cupy: 'CuPy on a GPU',
  fake: 'a GPU made of NumPy, for tests'
};

/** Facts about the chunk and the run of box `at`; those of a fused operand stand at each box that it was fused from. */
export function measuredFacts(picture: Picture, graph: DrawnGraph, side: Side, at: number): [string, string][] {
  const box = side === 'after' ? at : graph.group[at] ?? -1; // the box in `after`
  const facts: [string, string][] = [];
  const add = (word: string, value: string) => value && facts.push([word, value]);
  add('chunk', chunkIndex(graph, side === 'before' ? at : graph.group.lastIndexOf(at)));
  if (box < 0) {
    return facts;
  }
  const fused = side === 'before' && graph.after.size[box] > 1 ? ' of the fused operand' : '';
  const kind = graph.kind?.[box] ?? -1;
  const known = graph.kinds?.[kind];
  if (!fused && known?.dtype) {
    add('shape', tuple(known.shape.map(length => (length < 0 ? '?' : Number(length)))));
    add('dtype', known.dtype);
  }
  const took = secondsOf(picture, graph, box);
  add((graph.aggregated ? 'time of all' : 'time') + fused, took > 0 ? fine(took) : '');
  const predicted = graph.seconds?.[box];
  add(`predicted time${fused}`, predicted ? fine(predicted) : '');
  add('kernel', known?.text ?? '');
  const backend = picture.backends?.[kind];
  add('back end', backend ? BACKENDS[backend] ?? backend : '');
  return facts;
}

/** "(0, 2) of (4, 4)": the index of the chunk that a box before fusion computes, and chunks along each axis; "" for a part of a chunk. */
export function chunkIndex(graph: DrawnGraph, at: number): string {
  const grid = graph.grids?.[graph.grid?.[at]];
  let number = graph.chunk?.[at] ?? -1;
  if (!grid || number < 0) {
    return '';
  }
  const index = grid.map(() => 0);
  for (let axis = grid.length - 1; axis >= 0; axis--) {
    index[axis] = number % grid[axis];
    number = Math.floor(number / grid[axis]);
  }
  return grid.length ? `${tuple(index)} of ${tuple(grid)}` : 'the only one';
}

/** Values as Python writes a tuple. */
function tuple(values: (number | string)[]): string {
  return `(${values.join(', ')}${values.length === 1 ? ',' : ''})`;
}

/** Measured seconds of a box after fusion, 0 before its end. */
function secondsOf(picture: Picture, graph: DrawnGraph, box: number): number {
  const raw = asBytes(picture.operand_seconds);
  return raw.length === 4 * graph.after.n ? new DataView(raw.buffer, raw.byteOffset, raw.byteLength).getFloat32(4 * box, true) : 0;
}
