// The text of the header beside the state: the line that runs, operands and times; after the end what the run cost.
import { bytes, count, fine, plural, seconds } from '../model/format';
import { GONE, percentDone } from '../model/last';
import { done } from '../model/states';
import { Snap } from '../model/view';

export const ENDED = ['succeeded', 'failed', 'cancelled']; // states of a job
const LEAST_PYTHON = 1; // seconds in the kernel that are told

/** Whether a job of the cell runs; otherwise the cell's Python runs, or nothing. */
export function computes({ parts }: Snap): boolean {
  return parts.length > 0 && !ENDED.includes(parts[parts.length - 1].state);
}

/**
 * "line 3 of 7 · 20 of 40 operands · 2.1 s · about 2 s left", after the end "3.6 s · 2 workers started in 1.9 s · peak 172 MiB";
 * of a cell with several jobs of all of them together. Without predictions: the Plan tab has them. `summary` of
 * jmars/notebook/static_view.py writes the same after the end.
 */
export function headerText(snap: Snap, kernel: number[]): string {
  const jobs = snap.totals?.jobs ?? 1;
  return [
    snap.state === GONE && snap.n ? `last seen at ${percentDone(snap)}` : '',
    snap.live && snap.line ? `line ${snap.line} of ${snap.lines}` : '',
    snap.n && snap.state !== 'succeeded' ? `${count(done(snap.counts))} of ${plural(snap.n, 'operand')}${jobs > 1 ? ` in ${count(jobs)} jobs` : ''}` : '',
    snap.live ? seconds(snap.elapsed) : brief(snap.elapsed),
    snap.eta !== null && snap.live ? `about ${seconds(snap.eta)} left${jobs > 1 ? ` of job ${count(jobs)}` : ''}` : '',
    ...(snap.live ? [] : costs(snap, kernel)),
    readText(snap),
    snap.totals?.spilled ? `${bytes(snap.totals.spilled)} on disk` : ''
  ]
    .filter(Boolean)
    .join(' · ');
}

/** What an ended run cost: the start of the cluster, what was reused, Python in the kernel where it took most of the time, memory. */
function costs(snap: Snap, kernel: number[]): string[] {
  const python = kernel.reduce((sum, one) => sum + one, 0);
  const mostly = python >= LEAST_PYTHON && python > 0.5 * (snap.elapsed - (snap.started ?? 0));
  return [
    snap.n_started ? `${plural(snap.n_started, 'worker')} started in ${brief(snap.started)}` : '',
    snap.reused,
    mostly ? `${brief(python)} in Python, most in line ${kernel.indexOf(Math.max(...kernel)) + 1}` : '',
    snap.peak ? `peak ${bytes(snap.peak)}` : ''
  ];
}

/** Bytes of files and other sources: so far while the cell runs, then all that was read; '' without a source. */
function readText({ live, totals }: Snap): string {
  if (live && totals?.to_read) {
    return `${bytes(totals.read)} of ${bytes(totals.to_read)} read`;
  }
  return totals?.read ? `${bytes(totals.read)} read` : '';
}

const brief = (time: number) => (time >= 1 ? seconds(time) : fine(time));
