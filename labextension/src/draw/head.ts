// Draws the header of the view: state, times, buttons, error, the reason why nothing moves, and the bar of states.
import { plural } from '../model/format';
import { GONE } from '../model/last';
import { done } from '../model/states';
import { lossText, placeText } from '../model/hosts';
import { HostHeading, Picture, Snap } from '../model/view';
import { drawBar, drawLegend } from './bar';
import { h } from './dom';
import { computes, headerText } from './header';
import { Host } from './host';

const ASK_AGAIN = 3000; // ms after which Cancel may be clicked again

export interface Head {
  nodes: HTMLElement[];
  draw(now: Picture): void;
}

/** The header with its buttons; `details` shows and hides the rest, `later` draws the view again. */
export function makeHead(host: Host, details: HTMLElement, later: () => void): Head {
  const state = h('span', { class: 'jm-state', role: 'status' });
  const times = h('span', { class: 'jm-time' });
  const place = h('span', { class: 'jm-place' });
  const background = h('button', { type: 'button', class: 'jm-button', title: 'End the cell now; the job goes on in the background' }, 'To background') as HTMLButtonElement;
  const cancel = h('button', { type: 'button', class: 'jm-button jm-cancel', title: 'Cancel this job; the kernel stays usable' }, 'Cancel') as HTMLButtonElement;
  const error = h('pre', { class: 'jm-error', tabindex: 0, 'aria-label': 'error' });
  const why = h('p', { class: 'jm-why', role: 'status', hidden: true });
  const bar = h('div', { class: 'jm-bar', role: 'progressbar', 'aria-label': 'operands done', 'aria-valuemin': 0, 'aria-valuemax': 100 });
  const legend = h('ul', { class: 'jm-legend' });
  let asked = 0;

  cancel.addEventListener('click', () => {
    asked = Date.now();
    window.setTimeout(later, ASK_AGAIN + 50);
    host.cancel?.(host.get('snap')?.job || host.get('job_id') || '');
    cancel.disabled = true;
    cancel.textContent = 'Cancelling…';
  });
  background.addEventListener('click', () => host.background?.());

  function draw(now: Picture): void {
    const snap = now.snap as Snap | null;
    const { series } = now;
    const hosts: HostHeading[] = now.hosts || [];
    place.textContent = series?.engine ? `on ${series.engine}` : placeText(hosts);
    place.title = lossText(hosts);
    place.classList.toggle('jm-bad', Boolean(place.title));
    if (!snap || !snap.counts) {
      state.textContent = host.gone?.() ? GONE : 'preparing';
      background.hidden = cancel.hidden = error.hidden = why.hidden = true;
      return;
    }
    const word = snap.state === 'preparing' && !snap.job ? 'starting the cluster' : snap.state;
    if (state.textContent !== word) {
      state.textContent = word; // a live region: written only when the text changes
    }
    const finished = done(snap.counts);
    const stop = Boolean(host.cancel && snap.live && host.deaf?.()) && !computes(snap);
    times.textContent = headerText(snap, now.kernel || []) + (stop ? ' · to cancel, use the Stop button' : '');
    times.title = times.textContent;
    cancel.hidden = !host.cancel || !snap.live || stop;
    background.hidden = !host.background || !snap.live || !snap.attached || !snap.job;
    const busy = snap.state === 'cancelling' || Date.now() - asked < ASK_AGAIN;
    cancel.disabled = busy;
    cancel.textContent = busy ? 'Cancelling…' : 'Cancel';
    error.hidden = !snap.error;
    error.textContent = snap.error || '';
    why.hidden = !snap.why || !snap.live;
    why.dataset.calm = String(Boolean(snap.calm));
    if (why.textContent !== (snap.why || '')) {
      why.textContent = snap.why || '';
    }
    bar.setAttribute('aria-valuenow', String(snap.n ? Math.round((100 * finished) / snap.n) : 0));
    bar.setAttribute('aria-valuetext', `${finished} of ${plural(snap.n, 'operand')}`);
    drawBar(bar, snap.counts, snap.n);
    drawLegend(legend, snap.counts, snap.live);
    bar.hidden = legend.hidden = !snap.job;
  }

  const buttons = h('span', { class: 'jm-buttons' }, background, cancel);
  const line = h('header', { class: 'jm-head' }, details, h('b', {}, 'jmars'), place, state, times, buttons);
  return { nodes: [line, error, why, bar, legend], draw };
}
