// The item of the status bar: progress of the running jobs of all clusters.
import { Widget } from '@lumino/widgets';
import { h } from '../draw/dom';
import { plural } from '../model/format';
import { ClusterWatch } from './watch';

export class StatusItem extends Widget {
  private readonly _bar = h('i', { class: 'jm-share', 'aria-hidden': 'true' }, h('i', {}));
  private readonly _text = h('span', {});

  constructor(
    private readonly _watch: ClusterWatch,
    show: () => void
  ) {
    super();
    this.addClass('jmars-Status');
    const button = h('button', { type: 'button', title: 'Running jobs of jmars; a click shows the clusters' }, this._bar, this._text);
    button.addEventListener('click', show);
    this.node.append(button);
    _watch.changed.connect(() => this.draw());
  }

  /** "jmars: 2 jobs, 43 %", of the operands by the share of each job. */
  draw(): void {
    const jobs = this._watch.running.map(({ job }) => job);
    const share = jobs.reduce((sum, job) => sum + job.progress, 0) / Math.max(1, jobs.length);
    const percent = Math.floor(100 * share);
    this._text.textContent = jobs.length ? `jmars: ${plural(jobs.length, 'job')}, ${percent} %` : '';
    (this._bar.firstElementChild as HTMLElement).style.width = `${percent}%`;
    this.node.hidden = !jobs.length;
  }
}
