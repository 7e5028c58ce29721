// The last picture of a view: of a kernel that is gone, and as a notebook saves it.
import { asBytes } from './bytes';
import { plural } from './format';
import { done } from './states';
import { BYTES, MIME_TYPE, Picture, Snap } from './view';

export const GONE = 'kernel gone'; // in place of the state of a job

/** The header after the kernel is gone: no state of the job is known any more. */
export function lastSeen(snap: Snap): Snap {
  return snap.live ? { ...snap, state: GONE, live: false, attached: false, eta: null, why: '' } : snap;
}

/** "25 %" of the operands are done; "" for a job without operands. */
export function percentDone(snap: Snap): string {
  return snap.n ? `${Math.round((100 * done(snap.counts)) / snap.n)} %` : '';
}

/** The last picture as the data of an output, which needs no kernel. */
export function asOutput(picture: Picture): Record<string, unknown> {
  const { snap } = picture;
  const json: Record<string, unknown> = { ...picture };
  for (const name of BYTES) {
    json[name] = btoa(Array.from(asBytes(picture[name]), byte => String.fromCharCode(byte)).join(''));
  }
  const state = snap.state === GONE ? `the kernel is gone; last seen at ${percentDone(snap) || 'the start'}` : snap.state;
  return { [MIME_TYPE]: json, 'text/plain': `jmars: ${state}, ${done(snap.counts)} of ${plural(snap.n, 'operand')}` };
}
