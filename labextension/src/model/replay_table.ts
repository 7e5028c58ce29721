// The operands of a stage while a replay moves them: as jmars/notebook/operand_table.py has them.
import { DONE, N_STATES } from './states';
import { Picture } from './view';

const MOST = 10_000; // rows, and marks, of a stage

/** Offset in bytes, length, type. */
export type Column = [number, number, string];
export type Numbers = Uint8Array | Uint16Array | Uint32Array | Int16Array | Int32Array | Float64Array;

/** A stage as replay data has it. */
export interface TableHead {
  moment: number;
  earlier: number[];
  n: number;
  aggregated: boolean;
  rows: [number, number];
  marks: number[];
  label: Column;
  assigned: Column;
  group: Column;
  stage: Column;
}

/** The operands of a stage. */
export class Table {
  states: Uint8Array;
  workers: Int16Array;
  counts: Uint32Array; // of rows before fusion, then after, N_STATES each
  private label: Numbers;
  private group: Int32Array; // operand after fusion of each kept operand before fusion
  private stage: Numbers;
  private first: Uint32Array; // place of an operand's first member in `members`
  private members: Uint32Array; // stages of the operands before fusion, by operand after fusion
  private marks: { order: Uint32Array; begin: Uint32Array }[] = [];
  readonly assigned: Numbers;

  constructor(
    readonly head: TableHead,
    column: (at: Column) => Numbers,
    private notable: number[]
  ) {
    const { n, rows } = head;
    this.label = column(head.label);
    this.assigned = column(head.assigned);
    this.group = Int32Array.from(column(head.group));
    this.stage = column(head.stage);
    const marks = head.marks.reduce((sum, one) => sum + one, 0);
    if (this.label.length !== n || this.assigned.length !== n || this.group.length !== this.stage.length || Math.max(...rows) > MOST || !(marks <= MOST)) {
      throw new Error('its columns differ in length');
    }
    this.states = new Uint8Array(n);
    this.workers = new Int16Array(n).fill(-1);
    this.counts = new Uint32Array((rows[0] + rows[1]) * N_STATES);
    this.group.forEach((gap, i) => (this.group[i] = gap + (i ? this.group[i - 1] : 0)));
    this.first = new Uint32Array(n + 1);
    this.group.forEach(into => (this.first[into + 1] += 1));
    for (let i = 0; i < n; i++) {
      this.first[i + 1] += this.first[i];
    }
    const next = this.first.slice();
    this.members = new Uint32Array(this.group.length);
    this.group.forEach((into, i) => (this.members[next[into]++] = this.stage[i]));
    this.stage.forEach(row => (this.counts[row * N_STATES] += 1));
    this.label.forEach(row => (this.counts[(rows[0] + row) * N_STATES] += 1));
    if (head.aggregated) {
      this.marks = [layOut(this.stage, head.marks.slice(0, rows[0])), layOut(this.label, head.marks.slice(rows[0]))];
    }
  }

  move(ids: Uint32Array, state: number, worker: number): void {
    const above = this.head.rows[0];
    for (const id of ids) {
      const old = this.states[id];
      this.states[id] = state;
      if (worker >= 0) {
        this.workers[id] = worker;
      }
      const row = (above + this.label[id]) * N_STATES;
      this.counts[row + old] -= 1;
      this.counts[row + state] += 1;
      for (let i = this.first[id]; i < this.first[id + 1]; i++) {
        const stage = this.members[i] * N_STATES;
        this.counts[stage + old] -= 1;
        this.counts[stage + state] += 1;
      }
    }
  }

  /** Operands after fusion by state. */
  byState(): number[] {
    const sums = this.head.earlier.length ? this.head.earlier.slice() : new Array<number>(N_STATES).fill(0);
    for (let i = this.head.rows[0] * N_STATES; i < this.counts.length; i++) {
      sums[i % N_STATES] += this.counts[i];
    }
    return sums;
  }

  /** Operands that run and that are done, of the first `n` workers. */
  byWorker(n: number, state: number): { running: number[]; done: number[] } {
    const running = new Array<number>(n).fill(0);
    const ended = new Array<number>(n).fill(0);
    this.states.forEach((now, id) => {
      const worker = this.workers[id];
      if (worker >= 0 && worker < n) {
        running[worker] += Number(now === state);
        ended[worker] += Number(DONE.includes(now));
      }
    });
    return { running, done: ended };
  }

  /** `Picture.operand_states`, `operand_workers`, `operand_marks` and `stages`. */
  parts(): Partial<Picture> {
    const stages = Array.from({ length: this.head.rows[0] }, (_, row) => Array.from(this.counts.subarray(row * N_STATES, (row + 1) * N_STATES)));
    if (this.head.aggregated) {
      const counts = new DataView(new ArrayBuffer(4 * this.counts.length));
      this.counts.forEach((value, i) => counts.setUint32(4 * i, value, true));
      return { stages, operand_states: counts, operand_workers: null, operand_marks: view(this.shownMarks()) };
    }
    const ran = Uint8Array.from(this.states, (_, i) => this.mark(i));
    return { stages, operand_states: view(this.states.slice()), operand_workers: view(ran), operand_marks: null };
  }

  /** Worker + 1 of an operand: where it ran, or was first assigned. */
  private mark(id: number): number {
    const worker = this.workers[id] >= 0 ? this.workers[id] : this.assigned[id];
    return Math.min(255, Math.max(0, worker + 1));
  }

  private shownMarks(): Uint8Array {
    const rank = new Uint8Array(N_STATES);
    this.notable.forEach((state, i) => (rank[state] = i));
    const n = this.head.marks.reduce((sum, one) => sum + one, 0);
    const found = new Uint8Array(2 * n);
    let at = 0;
    this.marks.forEach(({ order, begin }, side) => {
      for (let k = 0; k < begin.length; k++, at++) {
        let most = -1;
        for (let i = begin[k]; i < (k + 1 < begin.length ? begin[k + 1] : order.length); i++) {
          const id = side ? order[i] : this.group[order[i]];
          most = Math.max(most, (rank[this.states[id]] << 8) | this.mark(id));
        }
        found[at] = this.notable[most >> 8];
        found[n + at] = most & 255;
      }
    });
    return found;
  }
}

/** Marks of boxes as jmars/notebook/operand_table.py has them: operands by box, and the place of each mark's first one. */
function layOut(box: Numbers, counts: number[]): { order: Uint32Array; begin: Uint32Array } {
  const sizes = new Uint32Array(counts.length);
  box.forEach(row => (sizes[row] += 1));
  const firsts = new Uint32Array(counts.length);
  for (let i = 1; i < firsts.length; i++) {
    firsts[i] = firsts[i - 1] + sizes[i - 1];
  }
  const next = firsts.slice();
  const order = new Uint32Array(box.length);
  box.forEach((row, i) => (order[next[row]++] = i));
  const begin = counts.flatMap((n, row) => Array.from({ length: n }, (_, k) => firsts[row] + Math.floor((k * sizes[row]) / Math.max(n, 1))));
  return { order, begin: Uint32Array.from(begin) };
}

function view(values: Uint8Array): DataView {
  return new DataView(values.buffer, values.byteOffset, values.byteLength);
}
