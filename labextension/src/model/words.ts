// What the words of the view mean, for tooltips. The words are those of docs/reference/glossary.md.

import { MEANINGS as STATES } from './states';
import { STATE_NAMES } from './view';

const MEANINGS: Record<string, string> = {
  // the inspector
  state: 'What the operand or the worker is doing, or how the operand ended.',
  'most notable state': 'The mark stands for several operands; this is the state of the one that needs attention first.',
  worker: 'The process that runs the operand, or that is to run it.',
  'initially assigned to': 'The worker that the plan chose before the run; another worker was free earlier.',
  output: 'Bytes of the chunk that the operand computes.',
  chunk: 'Index of the chunk in its array along each axis, and how many chunks there are along each axis.',
  shape: 'Elements of the chunk along each axis; ? for a length that only the run can tell.',
  dtype: 'Type of the elements of the chunk.',
  time: 'Measured seconds of computing the chunk and storing it, without waiting.',
  'time of all': 'Measured seconds of all ended operands of this box together, as if they had run one after the other.',
  'predicted time': 'Seconds as predicted before the run from measured costs of like operands.',
  'back end': 'What computed the chunk: machine code, numexpr, NumPy, or a function that is called as it is (of a library, or your own).',
  depth: 'Operands on the longest way from an operand without inputs to this one.',
  'read by': 'Operands that read the output of this one.',
  'descendants and itself': 'Operands that need this one, directly or not, counted once for each way to them.',
  inputs: 'Operands whose chunks this one reads.',
  'fused from': 'Operands before fusion that run as this one, so that nothing is stored between them.',
  'fused into': 'The operand after fusion that runs this one together with others.',
  operands: 'Operands of this kind after fusion.',
  // the Memory tab
  'peak of the cluster': 'Most bytes that all processes of the cluster and its shared memory took at once.',
  limit: 'Memory limit: bytes that all processes of the cluster and its shared memory may take together.',
  'all processes and chunks': 'Bytes that the processes of the cluster and its shared memory take, as the system counts them.',
  'reserved for chunks and scratch':
    'Bytes reserved for stored chunks, and for what running operands need beside their inputs. They may be more than all processes and chunks take, while operands have not used all that is reserved for them.',
  'reserved now': 'Bytes reserved for chunks and scratch at this moment, also those that no operand has used yet.',
  'reserved at the end': 'Bytes reserved at the end of the cell: stored chunks, and memory still promised to operands.',
  'chunks on disk': 'Bytes of chunks that were spilled: written to disk to make room, and read back when needed.',
  'on disk now': 'Bytes of chunks that are spilled at this moment.',
  'on disk at the end': 'Bytes of chunks that were spilled at the end of the cell.',
  'spilled in total': 'Bytes written to disk to make room since the cluster started.',
  'reloaded in total': 'Bytes read back from disk since the cluster started.',
  'kept in the kernel now':
    "Bytes that jmars keeps in the notebook's own process at this moment, beside the limit: copies of your arrays, and small values of named tensors, of 64 KiB or more each.",
  'kept in the kernel at the end':
    "Bytes that jmars keeps in the notebook's own process at the end of the cell, beside the limit: copies of your arrays, and small values of named tensors, of 64 KiB or more each.",
  'on GPUs now': 'Bytes of chunks in the memory of GPUs at this moment; each has a copy in shared memory or on disk.',
  'on GPUs at the end': 'Bytes of chunks in the memory of GPUs at the end of the cell; each has a copy in shared memory or on disk.',
  'memory of GPUs': 'Bytes that chunks may take in the memory of all GPUs.',
  // the Workers tab
  pid: 'Process id of the worker.',
  assigned: 'Operands that the plan gave to the worker before the run.',
  running: 'Operands that the worker has taken and not ended.',
  done: 'Operands that the worker has ended.',
  'chunks made': "Bytes of stored chunks that the worker computed. They lie in the cluster's shared memory or on disk, not in the worker.",
  memory: 'Bytes of the process itself, without the shared memory in which chunks lie.',
  'waiting for memory': 'The operand waits until the memory that it needs is free.',
  'reloading inputs': 'Inputs that were spilled are read back from disk; on several hosts also: inputs are read from other hosts.',
  calculating: 'The kernel computes the chunk.',
  storing: 'The result is copied to its place in shared memory.',
  'still running': 'Operands that the worker has taken and not ended; it calculates one at a time.',
  host: 'A computer, or a part of one, with workers, memory and a disk of its own.',
  'memory of the host': 'Bytes of all processes of the host and of the chunks that it keeps in memory, as a share of its limit.',
  'on disk': 'Bytes of chunks that are spilled on the host at this moment.',
  'from other hosts': 'Bytes of chunks that were read from other hosts since the first job of the cell was submitted.',
  // the Operands tab
  operand: 'A unit of work (Dask and Ray: task): computes one chunk, or a part of one.',
  line: 'Line of the cell that made the operands.',
  count: 'Operands before fusion.',
  progress: 'Share of the operands in each state.',
  // the Lines tab
  'line share': 'Share of the seconds of all lines, in the kernel and on workers.',
  'line kernel': 'Seconds in which the Python of the line ran in the kernel, without waiting for workers.',
  'line workers': 'Seconds in which workers computed chunks of the line and stored them, of all workers together.',
  'line waiting': 'Seconds in which operands of the line waited for memory, or for inputs from disk or other hosts, while other operands of the worker calculated.',
  'line bytes': 'Bytes of the chunks that ended operands of the line made; a fused operand counts at the line that makes its output.',
  'line state': 'Operands before fusion by state.',
  // the Plan tab
  'plan time': 'Seconds from the first operand of a job to its last, of all stages.',
  'peak of chunks': 'Most bytes of chunks and scratch at once.',
  spilled: 'Bytes written to disk to make room.',
  moved: 'Bytes sent from machine to machine; 0 on a single machine.',
  read: 'Bytes of files and other sources: elements asked for, times their size. A file may be read in larger pieces.',
  source: 'A file, or another function that gives parts of an array.',
  'to read': 'Bytes that operands ask the source for.',
  of: 'Bytes of the whole source.',
  parts: 'Parts of the source that are read apart.',
  predicted: 'As simulated before the run with the measured costs of this machine.',
  measured: 'As measured in this run.',
  difference: 'Of the measurement from the prediction.',
  'plan tried': 'A way to order and place the operands; each was simulated, and the best was run.',
  peak: 'Most bytes of chunks and scratch at once, as simulated.'
};

/** The meaning of a word of the view, for its tooltip; undefined for words without one. */
export function meaning(word: string): string | undefined {
  const state = (STATE_NAMES as readonly string[]).indexOf(word);
  return MEANINGS[word] ?? (state < 0 ? MEANINGS[word.replace(/ of the fused operand$/, '')] : STATES[state]);
}

/** Parts of the names of plans; docs/reference/planners.md has all. */
const PLANS: [RegExp, string][] = [
  [/\bdfs\b/, 'dfs: depth first, so that few chunks wait'],
  [/\bmars\b/, "mars: Mars's order, deeper operands first"],
  [/\bblevel\b/, 'blevel: the longest path to the end first'],
  [/\blevel\b/, 'level: breadth first'],
  [/\bwave\b/, 'wave: in waves over the workers'],
  [/\beft\b/, 'eft: each operand to the worker that ends it first'],
  [/\bhalves\b/, 'halves: the graph is halved again and again, a part for each worker'],
  [/\bruns\b/, 'runs: neighbouring operands to the same worker'],
  [/\bjustified\b/, 'justified: shifted to use idle time']
];

/** What the name of a plan means; "" for a name without known words. */
export function planMeaning(name: string): string {
  return PLANS.filter(([word]) => word.test(name))
    .map(([, text]) => text)
    .join('; ');
}
