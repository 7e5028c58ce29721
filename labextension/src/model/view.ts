// Written by `python -m jmars.notebook.view` from jmars/notebook/view.py, which defines these names.

export const MIME_TYPE = 'application/vnd.jmars.job.v1+json';
export const MAX_DRAWN = 1500;

export const TRAITS = ['job_id', 'graph', 'snap', 'operand_states', 'operand_workers', 'operand_marks', 'operand_seconds', 'backends', 'stages', 'code', 'line_costs', 'kernel', 'workers', 'hosts', 'series', 'lanes', 'plan', 'earlier'] as const;
export const BYTES = ['operand_states', 'operand_workers', 'operand_marks', 'operand_seconds', 'line_costs'] as const;
export const WORKER_STATES = ['allocating', 'preparing', 'calculating', 'storing'] as const;
export const STATE_NAMES = ['unscheduled', 'ready', 'running', 'finished', 'freed', 'spilled', 'cancelling', 'cancelled', 'fatal'] as const;
export type JobState = 'preparing' | 'running' | 'cancelling' | 'succeeded' | 'failed' | 'cancelled';

/** A job of a cell; a cell that needs a value at once runs several jobs. */
export interface JobPart {
  number: number;
  job: string;
  name: string;
  line: number;
  text: string;
  state: string;
  n: number;
  elapsed: number;
  spilled: number;
}

/** Costs of all jobs of a cell together. */
export interface Totals {
  jobs: number;
  spilled: number;
  read: number;
  to_read: number;
}

/** The header's data. */
export interface Snap {
  state: string;
  name: string;
  job: string;
  n: number;
  counts: number[];
  totals: Totals;
  elapsed: number;
  started: number;
  n_started: number;
  reused: string;
  peak: number;
  eta: number | null;
  error: string | null;
  why: string;
  calm: boolean;
  live: boolean;
  attached: boolean;
  view: string;
  line: number;
  lines: number;
  parts: JobPart[];
  seq: number;
}

/** A tensor operand of the cell, or a run of neighbours if there are more than MAX_BOXES. */
export interface StageRow {
  name: string;
  file: string;
  line: number;
  text: string;
  n: number;
}

/** A line of the cell, or a line elsewhere that made operands of it. */
export interface CodeLine {
  file: string;
  where: string;
  line: number;
  text: string;
}

/** A drawn graph: boxes and arrows. */
export interface BoxGraph {
  n: number;
  src: number[];
  dst: number[];
  label: number[];
  labels: string[];
  size: number[];
}

/** Chunks that operands of a kind make. */
export interface Kind {
  dtype: string;
  shape: number[];
  text: string;
}

/** The graph of the newest stage of a job, before and after fusion; sent once per stage. */
export interface DrawnGraph {
  job: string;
  stage_number: number;
  aggregated: boolean;
  n_before: number;
  n_after: number;
  n_pruned: number;
  stages: StageRow[];
  before: BoxGraph;
  after: BoxGraph;
  group: number[];
  stage: number[];
  assigned: number[];
  nbytes: number[];
  seconds: number[];
  kind: number[];
  kinds: Kind[];
  chunk: number[];
  grid: number[];
  grids: number[][];
  after_stages: number[][];
  marks: number[];
}

/** A row of the Workers tab: a worker and its executor process. */
export interface WorkerRow {
  name: string;
  host: number;
  pid: number;
  state: string;
  assigned: number;
  running: number;
  done: number;
  memory: number;
  stored: number;
  replaced: number;
}

/** The link from another host, as it was measured last. */
export interface LinkRow {
  source: string;
  bandwidth: number;
  latency: number;
  transport: string;
}

/** A host of a cluster of several hosts, as the heading above its workers. */
export interface HostHeading {
  name: string;
  state: string;
  why: string;
  since: number;
  memory: number;
  limit: number;
  spilled: number;
  received: number;
  begin: number[];
  end: number[];
  nbytes: number[];
  links: LinkRow[];
}

/** Memory over time, at most 240 points; merged points keep the peaks. */
export interface Series {
  t: number[];
  used: number[];
  resident: number[];
  spilled: number[];
  limit: number;
  engine: string;
  peak: number;
  spilled_total: number;
  reloaded_total: number;
  kernel: number | null;
  device: number;
  device_memory: number;
}

/** Operands that a worker has not ended yet: a piece that grows until now. */
export interface OpenPiece {
  begin: number;
  n: number;
  label: number;
}

/** The time line of a worker: pieces of one or several operands, in order. */
export interface Lane {
  worker: number;
  begin: number[];
  end: number[];
  took: number[][];
  n: number[];
  label: number[];
  lines: number[];
  open: OpenPiece | null;
}

/** The time lines of all workers for the newest job. */
export interface Lanes {
  labels: string[];
  lines: number[][];
  lanes: Lane[];
}

/** Costs of a run, predicted or measured. */
export interface RunCosts {
  makespan: number;
  peak: number[];
  spilled: number;
  moved: number;
}

/** A plan that was simulated. */
export interface TriedPlan {
  name: string;
  makespan: number;
  peak: number;
  spilled: number;
  moved: number;
}

/** A file, or another source, that a job reads. */
export interface SourceRow {
  name: string;
  line: number;
  text: string;
  read: number;
  nbytes: number;
  parts: number;
  why: string;
}

/** Predicted costs of the newest job beside measured costs. */
export interface PlanPart {
  predicted: RunCosts | null;
  measured: RunCosts | null;
  lower_bound: number;
  chosen: string;
  tried: TriedPlan[];
  to_read: number;
  read: number | null;
  sources: SourceRow[];
  stage: number;
  replans: number;
  why: string;
  refused: string[];
  advice: string[];
}

/** The picture of an earlier job of a cell; bytes are base64 text. */
export interface EarlierJob {
  job: string;
  graph: DrawnGraph;
  operand_states: string;
  operand_workers: string;
  operand_marks: string;
  operand_seconds: string;
  backends: string[];
  stages: number[][];
  lanes: Lanes | null;
  plan: PlanPart | null;
}

/** All data of the view; each field is a trait of the widget. */
export interface Picture {
  job_id: string;
  graph: DrawnGraph | null;
  snap: Snap;
  operand_states: DataView | null;
  operand_workers: DataView | null;
  operand_marks: DataView | null;
  operand_seconds: DataView | null;
  backends: string[];
  stages: number[][];
  code: CodeLine[];
  line_costs: DataView | null;
  kernel: number[];
  workers: WorkerRow[];
  hosts: HostHeading[];
  series: Series;
  lanes: Lanes | null;
  plan: PlanPart | null;
  earlier: EarlierJob[];
}
