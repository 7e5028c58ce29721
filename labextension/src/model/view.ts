// Written by `python -m jmars.notebook.view` from jmars/notebook/view.py, the owner of these names.

export const MIME_TYPE = 'application/vnd.jmars.job.v1+json';
export const MAX_DRAWN = 1500;

export const WORKER_STATES = ['allocating', 'preparing', 'calculating', 'storing'] as const;
export const STATE_NAMES = ['unscheduled', 'ready', 'running', 'finished', 'freed', 'spilled', 'cancelling', 'cancelled', 'fatal'] as const;
export type JobState = 'preparing' | 'running' | 'cancelling' | 'succeeded' | 'failed' | 'cancelled';

/** One job of a cell; a cell that needs a value at once runs several, one after another. */
export interface JobPart {
  job: string;
  name: string;
  state: string;
  n: number;
  elapsed: number;
}

/** What the header shows. */
export interface Snap {
  state: string;
  name: string;
  job: string;
  n: number;
  counts: number[];
  elapsed: number;
  eta: number | null;
  error: string | null;
  why: string;
  calm: boolean;
  live: boolean;
  attached: boolean;
  parts: JobPart[];
  seq: number;
}

/** One tensor operand of the cell, or a run of them where there are more than MAX_BOXES. */
export interface StageRow {
  name: string;
  file: string;
  line: number;
  text: string;
  n: number;
}

/** A graph as it is drawn: boxes and arrows. */
export interface Layer {
  n: number;
  src: number[];
  dst: number[];
  label: number[];
  labels: string[];
  size: number[];
}

/** The graph of one job's newest stage before and after fusion; sent once per stage. */
export interface Graph {
  job: string;
  stage_number: number;
  aggregated: boolean;
  n_before: number;
  n_after: number;
  n_pruned: number;
  stages: StageRow[];
  before: Layer;
  after: Layer;
  group: number[];
  stage: number[];
  assigned: number[];
  nbytes: number[];
  marks: number[];
}

/** One executor process. */
export interface WorkerRow {
  name: string;
  pid: number;
  state: string;
  assigned: number;
  running: number;
  done: number;
  memory: number;
  stored: number;
  replaced: number;
}

/** Memory over time, at most 240 points; where points were merged, the peaks are kept. */
export interface Series {
  t: number[];
  used: number[];
  resident: number[];
  spilled: number[];
  limit: number;
  peak: number;
  spilled_total: number;
  reloaded_total: number;
}

/** What one worker did: pieces of one operand or several, in their order. */
export interface Lane {
  worker: number;
  begin: number[];
  end: number[];
  took: number[][];
  n: number[];
  label: number[];
}

/** What the workers did for the newest job. */
export interface Lanes {
  labels: string[];
  lanes: Lane[];
}

/** What a run takes, predicted or measured. */
export interface Costs {
  makespan: number;
  peak: number[];
  spilled: number;
  moved: number;
}

/** A plan that was tried. */
export interface Tried {
  name: string;
  makespan: number;
  peak: number;
  spilled: number;
  moved: number;
}

/** What the newest job was predicted to cost, beside what it took. */
export interface PlanPart {
  predicted: Costs | null;
  measured: Costs | null;
  lower_bound: number;
  chosen: string;
  tried: Tried[];
  stage: number;
  replans: number;
  why: string;
  advice: string[];
}

/** All that the view shows; each field is a trait of the widget. */
export interface Picture {
  job_id: string;
  graph: Graph | null;
  snap: Snap;
  operand_states: DataView | null;
  operand_workers: DataView | null;
  operand_marks: DataView | null;
  stages: number[][];
  workers: WorkerRow[];
  series: Series;
  lanes: Lanes | null;
  plan: PlanPart | null;
}
