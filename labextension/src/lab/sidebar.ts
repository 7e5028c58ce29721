// The side bar: this user's clusters, a form that starts one, their jobs, and the view of a selected job.
import { Widget } from '@lumino/widgets';
import { h, morph } from '../draw/dom';
import { JobRow, reportUrl } from './api';
import { clusterOf, drawClusters, drawJobs, isOther } from './cards';
import { JobPanel } from './job_panel';
import { startForm } from './start_form';
import { Preferences } from './settings';
import { ClusterWatch } from './watch';
import { startCluster } from './api';

/** Called with a word of a button ("connect", "timeline", "scale", "stop", "open", "save-replay") and what it is about. */
export type Act = (word: string, cluster: string, job?: string) => void;

export class Sidebar extends Widget {
  private readonly _list = h('ul', { class: 'jm-clusters', 'aria-label': 'clusters' });
  private readonly _note = h('p', { class: 'jm-note', role: 'status' });
  private readonly _form: HTMLDetailsElement;
  private readonly _panel: JobPanel;
  private _leave: () => void = () => undefined;
  private _starting = false;
  private _unfolded = false; // whether clusters of other programs are listed
  private _followed = ''; // the kernel in front and its cluster, as last seen
  private _listed: { jobs: JobRow[]; shown: string } = { jobs: [], shown: '' };
  private readonly _notebooks = new Map<string, string>(); // paths by the ids of jobs, also of notebooks that are gone since

  constructor(
    private readonly _watch: ClusterWatch,
    preferences: () => Preferences,
    private readonly _act: Act,
    private readonly _front: () => string = () => '' // id of the kernel of the notebook in front
  ) {
    super();
    this.id = 'jmars-sidebar';
    this.addClass('jmars-Sidebar');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'jmars clusters');
    this._panel = new JobPanel(_watch.settings, text => this._say(text), (jobs, shown) => this._drawJobs(jobs, shown));
    this._panel.node.classList.add('jm-side-view');
    this._form = startForm(preferences, async order => {
      this._starting = true;
      this._draw();
      try {
        const { id } = await startCluster(_watch.settings, order);
        await _watch.poll(); // before it is chosen: the first of the list is shown instead of a cluster that is not listed
        this._choose(id);
      } finally {
        this._starting = false;
        this._draw();
      }
    });
    this.node.append(h('h2', {}, 'jmars'), this._form, this._note, this._list, this._panel.node);
    this._list.addEventListener('click', event => this._clicked(event));
    _watch.changed.connect(() => this._draw());
  }

  /** Id of the selected cluster; "" for none. */
  get cluster(): string {
    return this._panel.cluster;
  }

  /** Opens the form that starts a cluster. */
  openForm(): void {
    this._form.open = true;
    this._form.querySelector('select')?.focus();
  }

  protected override onAfterShow(): void {
    this._leave = this._watch.look();
    if (this.cluster) {
      this._panel.open(this.cluster);
    }
  }

  protected override onAfterHide(): void {
    this._leave();
    this._panel.pause(); // a hidden side bar costs nothing
  }

  override dispose(): void {
    this._leave();
    this._panel.leave();
    super.dispose();
  }

  private _draw(): void {
    if (!this.isVisible) {
      return;
    }
    const { rows, error } = this._watch;
    if (error) {
      this._say(`The Jupyter server does not answer for jmars: ${error}`);
      return;
    }
    this._say(rows.length || this._starting ? '' : 'No cluster is running. Start one here; a cell that begins with %%jmars starts one too, once %load_ext jmars has run.');
    const here = rows.find(row => row.id === this.cluster);
    const front = this._front();
    const own = clusterOf(rows, front, this.cluster);
    const followed = own ? `${front} ${own.id}` : this._followed;
    if (own && own.id !== this.cluster && followed !== this._followed) {
      this._followed = followed;
      this._choose(own.id); // of the notebook that came to the front, or a cluster that it started
      return;
    }
    this._followed = followed;
    if (!here?.alive) {
      const mine = rows.filter(row => row.alive && !isOther(row));
      const first = own ?? this._watch.running.find(({ cluster }) => mine.includes(cluster))?.cluster ?? mine[0];
      if (first) {
        this._panel.open(first.id);
      } else {
        this._panel.leave();
        this._drawJobs([], '');
      }
    }
    this._nameNotebooks();
    this._drawList();
  }

  private _say(text: string): void {
    if (this._note.textContent !== text) {
      this._note.textContent = text;
    }
    this._note.hidden = !text;
  }

  private _choose(id: string): void {
    this._panel.leave();
    this._notebooks.clear();
    this._drawJobs([], '');
    this._panel.open(id);
    this._draw();
  }

  private _clicked(event: Event): void {
    const { act, cluster = '', others } = (event.target as Element).closest('button')?.dataset ?? {};
    if (others !== undefined) {
      this._unfolded = !this._unfolded;
      this._drawList();
    } else if ((event.target as Element).closest('.jm-jobs')) {
      this._clickedJob(event);
    } else if (act) {
      this._act(act, cluster);
    } else if (cluster && cluster !== this.cluster) {
      this._choose(cluster);
    }
  }

  private _clickedJob(event: Event): void {
    const button = (event.target as Element).closest('button');
    if (button?.dataset.cancel) {
      button.setAttribute('disabled', '');
      this._panel.cancel(button.dataset.cancel);
    } else if (button?.dataset.open) {
      this._act('open', this.cluster, button.dataset.open);
    } else if (button?.dataset.replay) {
      this._act('save-replay', this.cluster, button.dataset.replay);
    } else if (button?.dataset.job) {
      this._panel.show(button.dataset.job);
    }
  }

  /** Notes whose jobs there are, which the stream of the jobs does not tell. */
  private _nameNotebooks(): void {
    const here = this._watch.rows.find(row => row.id === this.cluster);
    let fresh = false;
    for (const job of here?.jobs ?? []) {
      const path = here!.kernels.find(({ id }) => id === job.kernel)?.path;
      if (path && this._notebooks.get(job.id) !== path) {
        this._notebooks.set(job.id, path);
        fresh = true;
      }
    }
    if (fresh) {
      this._drawJobs(this._listed.jobs, this._listed.shown);
    }
  }

  private _drawJobs(jobs: JobRow[], shown: string): void {
    this._listed = { jobs, shown };
    this._drawList();
  }

  private _drawList(): void {
    const { jobs, shown } = this._listed;
    const report = (job: string) => reportUrl(this._watch.settings, this.cluster, job);
    const drawn = drawJobs(jobs, shown, report, job => this._notebooks.get(job) ?? '');
    morph(this._list, drawClusters(this._watch.rows, this.cluster, drawn, this._front(), this._unfolded));
  }
}
