// Derives states of boxes and the facts about an operand from a picture.
import { asBytes } from './bytes';
import { count, plural } from './format';
import { stagesOf } from './lines';
import { measuredFacts } from './measured';
import { N_STATES } from './states';
import { DrawnGraph, BoxGraph, Picture, StageRow, STATE_NAMES } from './view';

/** The boxes of a graph: a state per box, or counts by state per box. */
export interface Boxes {
  states: Uint8Array | null; // per box; 255 for an operand that no result needs
  counts: Uint32Array | null; // N_STATES per box
  workers: Uint8Array | null; // worker + 1 per box, 0 none
}

export type Side = 'before' | 'after';
export const PRUNED = 255;
const NONE: Boxes = { states: null, counts: null, workers: null };

/** States of the boxes of both graphs; none if the bytes do not fit the graph (the next frame brings them). */
export function boxes(picture: Picture): Record<Side, Boxes> {
  const graph = picture.graph;
  const raw = asBytes(picture.operand_states);
  if (!graph) {
    return { before: NONE, after: NONE };
  }
  if (graph.aggregated) {
    const split = graph.before.n * N_STATES;
    if (raw.length !== (graph.before.n + graph.after.n) * N_STATES * 4) {
      return { before: NONE, after: NONE };
    }
    const view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
    const counts = Uint32Array.from({ length: raw.length / 4 }, (_, i) => view.getUint32(4 * i, true));
    return {
      before: { ...NONE, counts: counts.subarray(0, split) },
      after: { ...NONE, counts: counts.subarray(split) }
    };
  }
  if (raw.length !== graph.after.n) {
    return { before: NONE, after: NONE };
  }
  const ran = asBytes(picture.operand_workers);
  const workers = ran.length === raw.length ? ran : null;
  const back = (values: Uint8Array, none: number) => Uint8Array.from(graph.group, at => (at < 0 ? none : values[at]));
  return {
    before: { ...NONE, states: back(raw, PRUNED), workers: workers && back(workers, 0) },
    after: { ...NONE, states: raw, workers }
  };
}

/** States and workers of the marks of an open box. */
export interface Opened {
  states: Uint8Array;
  workers: Uint8Array; // worker + 1, 0 none
  n: number; // operands in the box
}

/** The marks of a box of an aggregated graph; null if the box has less than two operands, or another graph is drawn. */
export function marks(picture: Picture, side: Side, box: number): Opened | null {
  const graph = picture.graph;
  const counts = graph?.marks || [];
  const raw = asBytes(picture.operand_marks);
  const all = counts.reduce((sum, one) => sum + one, 0);
  if (!graph || !graph.aggregated || box < 0 || box >= graph[side].n || raw.length !== 2 * all) {
    return null;
  }
  const at = (side === 'after' ? graph.before.n : 0) + box;
  const from = counts.slice(0, at).reduce((sum, one) => sum + one, 0);
  const to = from + counts[at];
  return to > from + 1 ? { states: raw.subarray(from, to), workers: raw.subarray(all + from, all + to), n: graph[side].size[box] } : null;
}

/** "operand 7 of 20", or "operands 7 to 9 of 60" where there are more operands than marks. */
function behind(opened: Opened, mark: number): string {
  const end = (at: number) => Math.floor((at * opened.n) / opened.states.length);
  const [first, last] = [end(mark) + 1, end(mark + 1)];
  return `${last > first ? `operands ${count(first)} to ${count(last)}` : `operand ${count(first)}`} of ${count(opened.n)}`;
}

/** The inspector's data about a box. */
export interface BoxFacts {
  title: string;
  facts: [string, string][];
  lines: StageRow[]; // the lines of the cell that made the operands
}

/** Facts about box `at` of a side, or about a mark in it; null if there is none. */
export function boxFacts(picture: Picture, side: Side, at: number, format: (bytes: number) => string, mark = -1): BoxFacts | null {
  const graph = picture.graph;
  if (!graph || at < 0 || at >= graph[side].n) {
    return null;
  }
  const layer = graph[side];
  const opened = mark < 0 ? null : marks(picture, side, at);
  if (opened && mark < opened.states.length) {
    const many = opened.n > opened.states.length;
    const row = picture.workers?.[opened.workers[mark] - 1];
    const facts: [string, string][] = [
      [many ? 'most notable state' : 'state', STATE_NAMES[opened.states[mark]] || '?'],
      ['worker', row ? row.name : 'none yet']
    ];
    return { title: `${layer.labels[layer.label[at]] || 'operand'}: ${behind(opened, mark)}`, facts, lines: sources(graph, side, at) };
  }
  const mine = boxes(picture)[side];
  const facts: [string, string][] = [];
  if (mine.states) {
    facts.push(['state', mine.states[at] === PRUNED ? 'not needed, so not run' : STATE_NAMES[mine.states[at]] || '?']);
  }
  if (mine.counts) {
    const counts = mine.counts.subarray(at * N_STATES, (at + 1) * N_STATES);
    STATE_NAMES.forEach((name, state) => counts[state] && facts.push([name, count(counts[state])]));
  }
  if (mine.workers) {
    const row = picture.workers[mine.workers[at] - 1];
    const first = side === 'after' && graph.assigned[at] >= 0 ? graph.assigned[at] : -1;
    facts.push(['worker', row ? row.name : 'none yet']);
    if (first >= 0 && first !== mine.workers[at] - 1) {
      facts.push(['initially assigned to', picture.workers[first]?.name ?? String(first)]);
    }
  }
  if (side === 'after' && graph.nbytes.length === layer.n) {
    facts.push(['output', format(graph.nbytes[at])]);
  }
  facts.push(...measuredFacts(picture, graph, side, at));
  if (!graph.aggregated) {
    facts.push(...ranking(layer, at));
    const reads = sourcesOf(layer, at);
    const sized = side === 'after' && graph.nbytes.length === layer.n;
    const name = (box: number) => `${layer.labels[layer.label[box]] || 'operand'} #${box}${sized ? ` (${format(graph.nbytes[box])})` : ''}`;
    facts.push(['inputs', reads.length ? [...reads.slice(0, NAMED_INPUTS).map(name), reads.length > NAMED_INPUTS ? `and ${reads.length - NAMED_INPUTS} more` : ''].filter(Boolean).join(', ') : 'none']);
  }
  if (side === 'after' && (graph.aggregated || layer.size[at] > 1)) {
    facts.push([graph.aggregated ? 'operands' : 'fused from', graph.aggregated ? count(layer.size[at]) : plural(layer.size[at], 'operand')]);
  } else if (side === 'before' && !graph.aggregated && graph.group[at] >= 0) {
    const into = graph.after;
    facts.push(['fused into', into.labels[into.label[graph.group[at]]]]);
  }
  return { title: layer.labels[layer.label[at]] || 'operand', facts, lines: sources(graph, side, at) };
}

const NAMED_INPUTS = 6; // inputs listed by name

/** Boxes that box `at` reads. */
export function sourcesOf(layer: BoxGraph, at: number): number[] {
  return [...new Set(layer.src.filter((_, i) => layer.dst[i] === at))];
}

/** The facts by which Mars ranked operands: depth, number of readers, and number of descendants, counted once per path. */
export function ranking(layer: BoxGraph, at: number): [string, string][] {
  const readers = [...new Set(layer.dst.filter((_, i) => layer.src[i] === at))].length;
  const depth = walk(layer.dst, layer.src, at, (below: number[]) => (below.length ? 1 + Math.max(...below) : 0));
  const follows = walk(layer.src, layer.dst, at, (above: number[]) => 1 + above.reduce((sum, one) => sum + one, 0));
  return [
    ['depth', String(depth)],
    ['read by', String(readers)],
    ['descendants and itself', follows > 1e9 ? follows.toExponential(1) : String(follows)]
  ];
}

/** Computes a number of a box from the numbers of the boxes that `to` leads to, each once, without recursion. */
function walk(from: number[], to: number[], start: number, make: (others: number[]) => number): number {
  const next = new Map<number, number[]>();
  from.forEach((box, i) => {
    const known = next.get(box) || [];
    if (!known.includes(to[i])) {
      next.set(box, [...known, to[i]]);
    }
  });
  const made = new Map<number, number>();
  const stack = [start];
  const open = new Set<number>();
  while (stack.length) {
    const box = stack[stack.length - 1];
    const others = (next.get(box) || []).filter(one => one !== box);
    const missing = others.filter(one => !made.has(one) && !open.has(one)); // graphs of layers may hold a cycle
    open.add(box);
    if (missing.length) {
      stack.push(...missing);
    } else {
      made.set(box, make(others.map(one => made.get(one) ?? 0)));
      stack.pop();
    }
  }
  return made.get(start) ?? 0;
}

/** Boxes of the other side that box `at` corresponds to. */
export function partners(graph: DrawnGraph, side: Side, at: number): number[] {
  if (graph.aggregated || at < 0) {
    return [];
  }
  if (side === 'before') {
    return graph.group[at] >= 0 ? [graph.group[at]] : [];
  }
  return graph.group.flatMap((into, i) => (into === at ? [i] : []));
}

function sources(graph: DrawnGraph, side: Side, at: number): StageRow[] {
  return stagesOf(graph, side, at).map(row => graph.stages[row]).filter(Boolean);
}
