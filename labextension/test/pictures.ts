// Pictures for the tests: rand -> add -> sum over four chunks, of which rand and add fuse.
import { Picture } from '../src/model/view';

export const bytes = (...values: number[]) => new DataView(Uint8Array.from(values).buffer);

/** Rows of `line_costs`. */
export const costs = (...rows: number[][]) => new DataView(new Float32Array(rows.flat()).buffer);

export function picture(changes: Partial<Picture> = {}): Picture {
  return {
    job_id: 'job-1',
    graph: {
      job: 'job-1',
      stage_number: 1,
      aggregated: false,
      n_before: 9,
      n_after: 5,
      n_pruned: 0,
      stages: [
        { name: 'rand', file: '<cell>', line: 1, text: 'a = np.random.rand(8)', n: 4 },
        { name: 'add', file: '<cell>', line: 2, text: 'b = a + 1', n: 4 },
        { name: 'sum', file: '<cell>', line: 3, text: 'b.sum()', n: 1 }
      ],
      before: { n: 9, src: [0, 1, 2, 3, 4, 5, 6, 7], dst: [4, 5, 6, 7, 8, 8, 8, 8], label: [0, 0, 0, 0, 1, 1, 1, 1, 2], labels: ['rand', 'add', 'sum'], size: Array(9).fill(1) },
      after: { n: 5, src: [0, 1, 2, 3], dst: [4, 4, 4, 4], label: [0, 0, 0, 0, 1], labels: ['rand+add', 'sum'], size: [2, 2, 2, 2, 1] },
      group: [0, 1, 2, 3, 0, 1, 2, 3, 4],
      stage: [0, 0, 0, 0, 1, 1, 1, 1, 2],
      assigned: [0, 1, 0, 1, -1],
      nbytes: [64, 64, 64, 64, 8],
      seconds: [0.5, 0.5, 0.5, 0.5, 0.25],
      kind: [0, 0, 0, 0, 1],
      kinds: [{ dtype: 'float64', shape: [4, 2] }, { dtype: 'float64', shape: [] }],
      chunk: [0, 1, 2, 3, 0, 1, 2, 3, 0],
      grid: [0, 0, 0, 0, 1, 1, 1, 1, 2],
      grids: [[2, 2], [2, 2], []],
      after_stages: [],
      marks: []
    },
    snap: {
      state: 'running',
      name: 'cell',
      job: 'job-1',
      n: 5,
      counts: [1, 1, 1, 2, 0, 0, 0, 0, 0],
      elapsed: 1.5,
      started: 0,
      n_started: 0,
      reused: '',
      peak: 0,
      eta: 3,
      error: null,
      why: '',
      calm: true,
      live: true,
      attached: true,
      view: '',
      line: 0,
      lines: 0,
      totals: { jobs: 1, spilled: 0 },
      parts: [{ number: 1, job: 'job-1', name: 'cell', line: 3, text: 'b.sum()', state: 'running', n: 5, elapsed: 1.5, spilled: 0 }],
      seq: 7
    },
    operand_states: bytes(3, 3, 2, 1, 0),
    operand_workers: bytes(1, 2, 1, 2, 0),
    operand_marks: bytes(),
    operand_seconds: new DataView(new Float32Array([0.75, 1, 0, 0, 0]).buffer),
    backends: ['numexpr', ''],
    stages: [
      [0, 1, 1, 2, 0, 0, 0, 0, 0],
      [0, 1, 1, 2, 0, 0, 0, 0, 0],
      [1, 0, 0, 0, 0, 0, 0, 0, 0]
    ],
    code: ['a = np.random.rand(8)', 'b = a + 1', 'b.sum()', '# done'].map((text, i) => ({ file: '<cell>', where: '', line: i + 1, text })),
    line_costs: costs([0, 0, 1.5, 0, 1.5, 0, 0, 1, 1, 2, 0, 0, 0, 0, 0], [0, 0.25, 1.5, 0, 1.5, 128, 0, 1, 1, 2, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], Array(15).fill(0)),
    kernel: [],
    workers: [
      { name: 'worker-0', host: -1, pid: 10, state: 'busy', assigned: 2, running: 1, done: 1, memory: 2 ** 20, stored: 64, replaced: 0 },
      { name: 'worker-1', host: -1, pid: 11, state: 'idle', assigned: 2, running: 0, done: 1, memory: 2 ** 21, stored: 64, replaced: 0 }
    ],
    hosts: [],
    series: { t: [0, 1], used: [0, 128], resident: [2 ** 20, 2 ** 21], spilled: [0, 64], limit: 2 ** 22, engine: '', peak: 2 ** 21, spilled_total: 64, reloaded_total: 0, kernel: null, device: 0, device_memory: 0 },
    lanes: null,
    plan: null,
    earlier: [],
    ...changes
  };
}

/** A large graph: a box for each of two stages before fusion and one after; add has 6 operands and 3 marks. */
export function large(): Picture {
  const layer = (n: number, labels: string[], size: number[]) => ({ n, src: n > 1 ? [0] : [], dst: n > 1 ? [1] : [], label: [...Array(n).keys()], labels, size });
  const small = picture();
  const stages = small.graph!.stages.slice(0, 2);
  const graph = { ...small.graph!, aggregated: true, n_before: 2004, n_after: 2000, stages, group: [], stage: [0, 1], assigned: [], nbytes: [], seconds: [], kind: [0], chunk: [], grid: [], grids: [], after_stages: [[0, 1]], marks: [1, 3, 2] };
  const counts = new DataView(new ArrayBuffer(3 * 9 * 4));
  return { ...small, graph: { ...graph, before: layer(2, ['rand', 'add'], [1, 6]), after: layer(1, ['rand+add'], [2]) }, operand_states: counts, operand_workers: bytes(), operand_seconds: new DataView(new Float32Array([12.5]).buffer), operand_marks: bytes(3, 4, 2, 8, 0, 1, 1, 1, 2, 1, 0, 0) };
}
