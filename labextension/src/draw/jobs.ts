// Draws the jobs of a cell: a line each, which opens the graph of that job.
import { bytes, count, fine, plural } from '../model/format';
import { Earlier } from '../model/earlier';
import { JobPart, Picture, Snap } from '../model/view';
import { h, morph } from './dom';

/** Draws the list, the newest job last and in sight; `chosen` is the job whose graph is shown. Nothing is drawn for a single job. */
export function drawJobs(el: HTMLElement, snap: Snap | null, chosen: string): void {
  const parts = snap?.parts ?? [];
  el.hidden = parts.length < 2;
  if (el.hidden) {
    return;
  }
  const jobs = snap!.totals?.jobs ?? parts.length;
  const list = h('ol', { class: 'jm-joblist', tabindex: 0, 'aria-label': 'jobs of this cell: a click shows the graph, workers, operands and plan of a job' }, ...parts.map((part, i) => line(part, part.job === chosen, part.number ?? i + 1)));
  const before = el.dataset.newest;
  morph(el, [jobs > parts.length ? h('p', { class: 'jm-note' }, `The last ${count(parts.length)} of ${plural(jobs, 'job')}:`) : null, list]);
  const newest = parts[parts.length - 1].job;
  if (before !== newest) {
    el.dataset.newest = newest;
    const shown = el.querySelector('.jm-joblist')!;
    shown.scrollTop = shown.scrollHeight;
  }
}

function line(part: JobPart, pressed: boolean, number: number): HTMLElement {
  const where = part.line ? `line ${Number(part.line)}: ${part.text}` : part.text || part.name || part.job;
  const facts = [part.state, plural(part.n, 'operand'), fine(part.elapsed), part.spilled ? `spilled ${bytes(part.spilled)}` : ''];
  return h(
    'li',
    { 'data-state': part.state },
    h(
      'button',
      { type: 'button', class: 'jm-part', 'data-job': part.job, 'aria-pressed': String(pressed), title: where },
      h('span', { class: 'jm-number' }, `${count(number)}.`),
      h('code', {}, where),
      h('span', {}, facts.filter(Boolean).join(', '))
    )
  );
}

/** Which job is shown, where it is not the newest; "" for the newest. */
export function chosenText(picture: Picture, shown: Earlier): string {
  const part = picture.snap.parts.find(one => one.job === shown.job);
  const which = `job ${count(part?.number ?? 0)} of ${count(picture.snap.totals?.jobs ?? picture.snap.parts.length)}`;
  if (!shown.picture) {
    return `The graph of ${which} is not kept${picture.snap.live ? ', or has not been sent yet' : ''}: the view keeps those of the last 20 jobs as far as they are small. Click the last job of the list for the newest graph.`;
  }
  return `Shown: ${which}. Click the last job of the list for the newest.`;
}
