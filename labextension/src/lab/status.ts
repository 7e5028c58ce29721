// The item of the status bar: progress of the running jobs of this server's notebooks.
import { Widget } from '@lumino/widgets';
import { h } from '../draw/dom';
import { plural } from '../model/format';
import { jobTitle } from './cards';
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

  /** "jmars: In [3] of fit.ipynb, 43 %", or "jmars: 2 jobs, 43 %"; of the operands by the share of each job. */
  draw(): void {
    const mine = this._watch.mine;
    const jobs = mine.map(({ job }) => job);
    const share = jobs.reduce((sum, job) => sum + job.progress, 0) / Math.max(1, jobs.length);
    const percent = Math.floor(100 * share);
    const what = mine.length === 1 ? jobTitle(mine[0].cluster, mine[0].job) : plural(jobs.length, 'job');
    this._text.textContent = jobs.length ? `jmars: ${what}, ${percent} %` : '';
    (this._bar.firstElementChild as HTMLElement).style.width = `${percent}%`;
    this.node.hidden = !jobs.length;
  }
}
