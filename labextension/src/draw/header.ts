// The text of the header beside the state: the line that runs, operands, times.
import { count, fine, plural, seconds } from '../model/format';
import { GONE, percentDone } from '../model/last';
import { done } from '../model/states';
import { PlanPart, Snap } from '../model/view';
import { predictionText } from './plan';

/** "line 3 of 7 · 20 of 40 operands · 2.1 s · about 2 s left". */
export function headerText(snap: Snap, plan: PlanPart | null): string {
  return [
    snap.state === GONE && snap.n ? `last seen at ${percentDone(snap)}` : '',
    snap.live && snap.line ? `line ${snap.line} of ${snap.lines}` : '',
    snap.n ? `${count(done(snap.counts))} of ${plural(snap.n, 'operand')}` : '',
    snap.live || snap.elapsed >= 1 ? seconds(snap.elapsed) : fine(snap.elapsed),
    snap.eta !== null && snap.live ? `about ${seconds(snap.eta)} left` : '',
    predictionText(plan)
  ]
    .filter(Boolean)
    .join(' · ');
}
