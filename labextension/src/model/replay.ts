// Replay data, which jmars/notebook/replay_data.py makes: unpacks it, and folds it to the picture at any moment. Operands
// move here as in jmars/notebook/operand_table.py; the other parts come from the newest keyframe before the moment.
import { fromJson } from './bytes';
import { DONE, N_STATES, sentence } from './states';
import { Picture, STATE_NAMES } from './view';

export const REPLAY_TYPE = 'application/vnd.jmars.replay.v1+json';
const LARGEST = 256 * 2 ** 20; // bytes of unpacked data
const SNAPSHOTS = 48; // of the operands of a run: a jump folds no more than the moves between two of them

type Column = [number, number, string];
type Numbers = Uint8Array | Uint16Array | Uint32Array | Int16Array | Int32Array | Float64Array;

interface TableHead {
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

interface Head {
  version: number;
  job: string;
  name: string;
  seconds: number;
  kinds: string[];
  notable: number[];
  running: number;
  keys: ({ moment: number } & Record<string, unknown>)[];
  tables: TableHead[];
  columns: Record<'times' | 'kind' | 'ids' | 'moment' | 'state' | 'worker' | 'size', Column>;
}

/** A run that can be shown at any moment. */
export interface Replay {
  name: string;
  seconds: number; // of the last moment
  moments: number; // events
  time(moment: number): number; // seconds since the submission
  at(seconds: number): number; // newest moment
  told(moment: number): string; // what the event is
  picture(moment: number, seconds: number): Partial<Picture>;
}

/** Unpacks base64 text; rejects with an Error that says what is wrong. */
export async function unpack(text: string): Promise<Replay> {
  let raw: Uint8Array;
  try {
    raw = await inflate(Uint8Array.from(atob(text), c => c.charCodeAt(0)));
  } catch (error) {
    throw new Error(`The replay is damaged: ${error instanceof Error ? error.message : error}`);
  }
  if (raw.length < 4) {
    throw new Error('The replay is damaged: it is empty');
  }
  const size = new DataView(raw.buffer).getUint32(0, true);
  let head: Head;
  try {
    head = JSON.parse(new TextDecoder().decode(raw.subarray(4, 4 + size)));
    if (head.version !== 1) {
      throw new Error(`it is of version ${head.version}, which is later than this jmars`);
    }
    return fold(head, raw.subarray(4 + size));
  } catch (error) {
    throw new Error(`The replay is damaged: ${error instanceof Error ? error.message : error}`);
  }
}

async function inflate(packed: Uint8Array): Promise<Uint8Array> {
  const reader = new Blob([packed as BlobPart]).stream().pipeThrough(new DecompressionStream('deflate')).getReader();
  const parts: Uint8Array[] = [];
  let size = 0;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    parts.push(next.value as Uint8Array);
    size += next.value.length;
    if (size > LARGEST) {
      await reader.cancel();
      throw new Error('it is too large');
    }
  }
  const raw = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    raw.set(part, at);
    at += part.length;
  }
  return raw;
}

/** The operands of a stage. */
class Table {
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
    this.states = new Uint8Array(n);
    this.workers = new Int16Array(n).fill(-1);
    this.counts = new Uint32Array((rows[0] + rows[1]) * N_STATES);
    this.label = column(head.label);
    this.assigned = column(head.assigned);
    this.group = Int32Array.from(column(head.group));
    this.stage = column(head.stage);
    if (this.label.length !== n || this.assigned.length !== n || this.group.length !== this.stage.length) {
      throw new Error('its columns differ in length');
    }
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

/** Marks of boxes as jmars/notebook/marks.py has them: operands by box, and the place of each mark's first one. */
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

/** The last index whose value is at most `wanted`; -1 if there is none. */
export function last(values: ArrayLike<number>, wanted: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

interface Snapshot {
  table: number;
  states: Uint8Array;
  workers: Int16Array;
  counts: Uint32Array;
}

function fold(head: Head, bytes: Uint8Array): Replay {
  const column = ([at, length, kind]: Column): Numbers => {
    const Kind = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i2: Int16Array, i4: Int32Array, f8: Float64Array }[kind];
    if (!Kind || at < 0 || at + length * Kind.BYTES_PER_ELEMENT > bytes.length) {
      throw new Error('a column is missing');
    }
    return new Kind(bytes.slice(at, at + length * Kind.BYTES_PER_ELEMENT).buffer);
  };
  const [times, kind, ids, moment, state, worker, size] = (['times', 'kind', 'ids', 'moment', 'state', 'worker', 'size'] as const).map(name => column(head.columns[name]));
  const tables = head.tables.map(one => new Table(one, column, head.notable));
  const starts = head.tables.map(one => one.moment);
  const offset = new Uint32Array(size.length + 1);
  size.forEach((n, i) => (offset[i + 1] = offset[i] + n));
  if (offset[size.length] !== ids.length || !times.length || !head.keys.length) {
    throw new Error('its columns differ in length');
  }
  const every = Math.max(1, Math.ceil(size.length / SNAPSHOTS));
  const snapshots: Snapshot[] = [];
  let current = -1; // table
  let done = 0; // moves that are folded

  function apply(i: number): void {
    const mine = new Uint32Array(size[i]);
    for (let k = 0, id = 0; k < mine.length; k++) {
      id += ids[offset[i] + k];
      mine[k] = id;
    }
    const table = last(starts, moment[i]);
    if (table >= 0 && mine.length && mine[mine.length - 1] >= tables[table].head.n) {
      throw new Error('an operand is missing');
    }
    current = table;
    tables[table]?.move(mine, state[i], worker[i]);
  }
  function keep(): void {
    const it = tables[current];
    snapshots.push({ table: current, states: it ? it.states.slice() : new Uint8Array(), workers: it ? it.workers.slice() : new Int16Array(), counts: it ? it.counts.slice() : new Uint32Array() });
  }
  const fresh = tables.map(one => one.counts.slice());
  function restore(snapshot: Snapshot): void {
    current = snapshot.table;
    tables.forEach((one, i) => {
      const same = i === snapshot.table;
      one.states.set(same ? snapshot.states : new Uint8Array(one.states.length));
      one.workers.set(same ? snapshot.workers : new Int16Array(one.workers.length).fill(-1));
      one.counts.set(same ? snapshot.counts : fresh[i]);
    });
  }
  for (; done < size.length; done++) {
    if (done % every === 0) {
      keep();
    }
    apply(done);
  }

  /** Folds the moves up to a moment. */
  function seek(wanted: number): void {
    const upto = last(moment, wanted) + 1;
    if (upto < done || upto - done > every) {
      const from = Math.min(Math.floor(upto / every), snapshots.length - 1);
      if (from < 0) {
        return;
      }
      restore(snapshots[from]);
      done = from * every;
    }
    for (; done < upto; done++) {
      apply(done);
    }
  }

  const names = [...new Set(head.keys.flatMap(key => Object.keys(key)))].filter(name => name !== 'moment') as (keyof Picture)[];
  const found = Object.fromEntries(names.map(name => [name, head.keys.filter(key => name in key)]));
  const moments = Object.fromEntries(names.map(name => [name, found[name].map(key => key.moment)]));
  const decoded = new WeakMap<object, Partial<Picture>>();
  const kept = (name: keyof Picture, at: number) => {
    const key = found[name]?.[last(moments[name], at)];
    if (!key) {
      return null;
    }
    if (!decoded.has(key)) {
      decoded.set(key, fromJson(key));
    }
    return decoded.get(key)![name];
  };

  function picture(at: number, seconds: number): Partial<Picture> {
    seek(at);
    const now = Object.fromEntries(names.map(name => [name, kept(name, at)])) as Partial<Picture>;
    const newest = last(starts, at);
    const table = tables[newest];
    const snap = now.snap ? { ...now.snap } : null;
    if (snap?.live) {
      const late = Math.max(0, seconds - snap.elapsed);
      snap.eta = snap.eta === null ? null : Math.max(0, snap.eta - late);
      snap.elapsed = Math.max(0, seconds);
    }
    if (table && snap) {
      snap.counts = table.byState();
      snap.n = snap.counts.reduce((sum, one) => sum + one, 0);
    }
    const ran = table?.byWorker(now.workers?.length ?? 0, head.running);
    const workers = (now.workers || []).map((row, i) => {
      const mine = ran ? { ...row, running: ran.running[i], done: ran.done[i] } : row;
      return { ...mine, state: mine.running && !['lost', 'left'].includes(row.state) ? 'busy' : row.state === 'busy' ? 'idle' : row.state };
    });
    return { ...now, ...(table ? table.parts() : { stages: [], operand_states: null, operand_workers: null, operand_marks: null }), snap: snap as Picture['snap'], workers };
  }
  return {
    name: head.name || head.job,
    seconds: head.seconds,
    moments: times.length,
    time: at => times[Math.min(Math.max(at, 0), times.length - 1)],
    at: seconds => Math.max(0, last(times, seconds)),
    told: at => {
      const move = last(moment, at);
      if (move < 0 || moment[move] !== at) {
        return head.kinds[kind[at]] ?? '';
      }
      const counts = new Array<number>(N_STATES).fill(0);
      counts[state[move]] = size[move];
      return `${sentence(counts) || STATE_NAMES[state[move]]}${worker[move] >= 0 ? `, worker ${worker[move]}` : ''}`;
    },
    picture
  };
}
