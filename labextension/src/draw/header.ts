// The text of the header beside the state: the line that runs, operands, times and costs. Without predictions: the Plan tab has them.
import { bytes, count, fine, plural, seconds } from '../model/format';
import { GONE, percentDone } from '../model/last';
import { done } from '../model/states';
import { PlanPart, Snap } from '../model/view';

export const ENDED = ['succeeded', 'failed', 'cancelled']; // states of a job

/** Whether a job of the cell runs; otherwise the cell's Python runs, or nothing. */
export function computes({ parts }: Snap): boolean {
  return parts.length > 0 && !ENDED.includes(parts[parts.length - 1].state);
}

/** "line 3 of 7 · 20 of 40 operands · 2.1 s · about 2 s left"; of a cell with several jobs of all of them together. */
export function headerText(snap: Snap, plan: PlanPart | null): string {
  const jobs = snap.totals?.jobs ?? 1;
  return [
    snap.state === GONE && snap.n ? `last seen at ${percentDone(snap)}` : '',
    snap.live && snap.line ? `line ${snap.line} of ${snap.lines}` : '',
    snap.n ? `${count(done(snap.counts))} of ${plural(snap.n, 'operand')}${jobs > 1 ? ` in ${count(jobs)} jobs` : ''}` : '',
    snap.live || snap.elapsed >= 1 ? seconds(snap.elapsed) : fine(snap.elapsed),
    snap.eta !== null && snap.live ? `about ${seconds(snap.eta)} left${jobs > 1 ? ` of job ${count(jobs)}` : ''}` : '',
    snap.live && plan && plan.stage > 1 && jobs === 1 ? `stage ${count(plan.stage)}` : '',
    snap.totals?.spilled ? `${bytes(snap.totals.spilled)} on disk` : ''
  ]
    .filter(Boolean)
    .join(' · ');
}
