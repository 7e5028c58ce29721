// Costs of the lines of a cell, and which boxes of a graph belong to which lines.
import { asBytes } from './bytes';
import type { Side } from './picture';
import { N_STATES } from './states';
import { CodeLine, DrawnGraph, Lanes, Picture } from './view';

const COLUMNS = 6 + N_STATES; // of line_costs

/** A line with its costs. */
export interface LineCosts extends CodeLine {
  row: number; // in `Picture.code`
  kernel: number; // seconds of its Python in the kernel
  busy: number; // seconds of calculating and storing on workers
  idle: number; // seconds of waiting for memory and reloading inputs on workers
  share: number; // of all these seconds of all lines, 0 to 1
  split: boolean; // some of the seconds are of operands that were fused from several lines
  nbytes: number; // of the chunks that its ended operands made
  counts: number[]; // operands before fusion by state
  n: number; // operands before fusion
}

const time = (line: LineCosts) => line.kernel + line.busy + line.idle;

/** The lines of the cell with their costs, in the order of `Picture.code`. */
export function lineCosts(picture: Picture): LineCosts[] {
  const code = picture.code || [];
  const raw = asBytes(picture.line_costs);
  const view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
  const at = (row: number, column: number) => (raw.length >= 4 * COLUMNS * (row + 1) ? view.getFloat32(4 * (COLUMNS * row + column), true) : 0);
  const lines = code.map((line, row) => {
    const took = [0, 1, 2, 3].map(state => at(row, state));
    const counts = Array.from({ length: N_STATES }, (_, state) => at(row, 6 + state));
    const n = counts.reduce((sum, one) => sum + one, 0);
    const kernel = line.where ? 0 : picture.kernel?.[line.line - 1] ?? 0;
    return { ...line, row, kernel, busy: took[2] + took[3], idle: took[0] + took[1], share: 0, split: at(row, 4) > 0, nbytes: at(row, 5), counts, n };
  });
  const all = lines.reduce((sum, line) => sum + time(line), 0);
  return lines.map(line => ({ ...line, share: all > 0 ? time(line) / all : 0 }));
}

/** The row of each of `graph.stages` in `code`, -1 for none. */
function rowsOfStages(graph: DrawnGraph, code: CodeLine[]): number[] {
  const rows = new Map(code.map((line, row) => [`${line.line} ${line.file}`, row]));
  return graph.stages.map(stage => rows.get(`${stage.line} ${stage.file}`) ?? -1);
}

/** Rows in `graph.stages` of the operands that box `at` was fused from, in order. */
export function stagesOf(graph: DrawnGraph, side: Side, at: number): number[] {
  if (side === 'before') {
    return [graph.stage[at]];
  }
  const rows = graph.aggregated ? graph.after_stages?.[at] ?? [] : graph.group.flatMap((into, i) => (into === at ? [graph.stage[i]] : []));
  return [...new Set(rows)].sort((a, b) => a - b);
}

/** Rows in `code` of the lines that made box `at`. */
export function linesOf(graph: DrawnGraph, code: CodeLine[], side: Side, at: number): number[] {
  const rows = rowsOfStages(graph, code);
  return [...new Set(stagesOf(graph, side, at).map(stage => rows[stage] ?? -1))].filter(row => row >= 0);
}

/** Whether each box of a side belongs to one of the lines `focus`; null without such lines. */
export function litBoxes(graph: DrawnGraph, code: CodeLine[], side: Side, focus: number[]): boolean[] | null {
  if (!focus.length) {
    return null;
  }
  const lit = rowsOfStages(graph, code).map(row => focus.includes(row));
  if (side === 'before') {
    return graph.stage.map(stage => lit[stage] ?? false);
  }
  if (graph.aggregated) {
    return Array.from({ length: graph.after.n }, (_, box) => stagesOf(graph, side, box).some(stage => lit[stage]));
  }
  const boxes = Array<boolean>(graph.after.n).fill(false);
  graph.group.forEach((into, i) => into >= 0 && lit[graph.stage[i]] && (boxes[into] = true));
  return boxes;
}

/** Whether a piece of a lane belongs to one of the lines `focus`. */
export function isLit(lanes: Lanes, set: number | undefined, focus: number[]): boolean {
  return !focus.length || Boolean(lanes.lines?.[set ?? -1]?.some(row => focus.includes(row)));
}

/** "line 3", "lines 3 and 4", "line 2 of Cell In[1]". */
export function lineNames(code: CodeLine[], rows: number[]): string {
  const name = ({ line, where }: CodeLine) => `${Number(line)}${where ? ` of ${where}` : ''}`;
  const names = rows.map(row => code[row]).filter(Boolean).map(name);
  return `line${names.length > 1 ? 's' : ''} ${names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names[names.length - 1]}` : names[0] ?? ''}`;
}
