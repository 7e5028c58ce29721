// Replay data, which jmars/notebook/replay.py makes: unpacks it, and folds it to the picture at any moment. Operands
// move as replay_table.ts says; the other parts come from the newest keyframe before the moment.
import { fromJson } from './bytes';
import { plural } from './format';
import { Column, Numbers, Table, TableHead } from './replay_table';
import { Picture, STATE_NAMES } from './view';

export const REPLAY_TYPE = 'application/vnd.jmars.replay.v1+json';
const LARGEST = 256 * 2 ** 20; // bytes of unpacked data
const SNAPSHOTS = 48; // of the operands of a run: a jump folds no more than the moves between two of them

/** What events are, in words. */
const EVENTS: Record<string, string> = {
  JobSubmitted: 'the job is submitted',
  JobPrepared: 'the plan is made',
  JobMoved: 'the job has a new state',
  GraphBuilt: 'the graph is built',
  OperandsTimed: 'times of operands are told',
  MemoryChanged: 'memory is measured',
  WorkerMoved: 'a worker has a new state',
  HostMoved: 'a host has a new state',
  ChunksMoved: 'chunks came from another host',
  ChunksLost: 'chunks are lost',
  LinkMeasured: 'a link is measured',
  Expected: 'the time left is estimated',
  Replanned: 'the rest is planned anew',
  Stalled: 'a reason for waiting is told',
  SchedulerMoved: 'a scheduler has a new state'
};

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
        return EVENTS[head.kinds[kind[at]]] ?? head.kinds[kind[at]] ?? '';
      }
      const rows = kept('workers', at) as Picture['workers'] | null;
      return `${plural(size[move], 'operand')} ${STATE_NAMES[state[move]]}${worker[move] >= 0 ? ` on ${rows?.[worker[move]]?.name ?? `worker ${worker[move]}`}` : ''}`;
    },
    picture
  };
}
