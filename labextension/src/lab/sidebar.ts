// The side bar: this user's clusters, their jobs, and the view of a selected job.
import { ServerConnection } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';
import { h, morph } from '../draw/dom';
import { ENDED } from '../draw/header';
import { Host } from '../draw/host';
import { mount } from '../draw/mount';
import { fromJson } from '../model/bytes';
import { plural, seconds } from '../model/format';
import { Picture } from '../model/view';
import { cancelJob, ClusterRow, clusters, JobRow, Stream, stream } from './api';

const POLL = 2000; // ms

export class Sidebar extends Widget {
  private readonly _settings = ServerConnection.makeSettings();
  private readonly _list = h('ul', { class: 'jm-clusters', 'aria-label': 'clusters' });
  private readonly _jobs = h('ul', { class: 'jm-jobs', 'aria-label': 'jobs' });
  private readonly _note = h('p', { class: 'jm-note', role: 'status' });
  private readonly _view = h('div', { class: 'jm-side-view' });
  private _cluster = '';
  private _job = '';
  private _stream: Stream | null = null;
  private _picture: Partial<Picture> = {};
  private _changed: () => void = () => undefined;
  private _unmount: () => void = () => undefined;
  private _timer = 0;

  constructor() {
    super();
    this.id = 'jmars-sidebar';
    this.addClass('jmars-Sidebar');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'jmars clusters');
    this.node.append(h('h2', {}, 'jmars'), this._note, this._list, this._jobs, this._view);
    this._list.addEventListener('click', event => this._chose(event));
    this._jobs.addEventListener('click', event => this._choseJob(event));
  }

  protected override onAfterShow(): void {
    void this._poll();
    this._timer = window.setInterval(() => void this._poll(), POLL);
    if (this._cluster) {
      this._open(this._cluster);
    }
  }

  protected override onAfterHide(): void {
    window.clearInterval(this._timer);
    this._stream?.close(); // a hidden side bar costs nothing
    this._stream = null;
  }

  override dispose(): void {
    window.clearInterval(this._timer);
    this._stream?.close();
    this._unmount();
    super.dispose();
  }

  private async _poll(): Promise<void> {
    let rows: ClusterRow[];
    try {
      rows = await clusters(this._settings);
    } catch (error) {
      this._say(`The Jupyter server does not answer for jmars: ${error instanceof Error ? error.message : 'unknown'}`);
      return;
    }
    this._say(rows.length ? '' : 'No cluster is running. A cell that begins with %%jmars starts one.');
    morph(
      this._list,
      rows.map(row =>
        h(
          'li',
          {},
          h(
            'button',
            { type: 'button', class: 'jm-card', 'data-cluster': row.id, 'aria-pressed': String(row.id === this._cluster), disabled: !row.alive },
            h('b', {}, row.name || row.id),
            h('span', {}, row.alive ? `${plural(row.workers, 'worker')}${row.hosts ? ` on ${plural(row.hosts, 'host')}` : ''}, ${plural(row.jobs.length, 'job')}` : 'does not answer')
          )
        )
      )
    );
    const here = rows.find(row => row.id === this._cluster);
    if (!here || !here.alive) {
      const first = rows.find(row => row.alive);
      if (first) {
        this._open(first.id);
      } else {
        this._leave();
      }
    }
  }

  private _say(text: string): void {
    if (this._note.textContent !== text) {
      this._note.textContent = text;
    }
    this._note.hidden = !text;
  }

  private _chose(event: Event): void {
    const id = (event.target as Element).closest('button')?.dataset.cluster;
    if (id && id !== this._cluster) {
      this._leave();
      this._open(id);
      void this._poll();
    }
  }

  private _choseJob(event: Event): void {
    const button = (event.target as Element).closest('button');
    if (button?.dataset.cancel) {
      button.setAttribute('disabled', '');
      this._cancel(button.dataset.cancel);
    } else if (button?.dataset.job) {
      this._stream?.show(button.dataset.job);
    }
  }

  private _cancel(job: string): void {
    cancelJob(this._settings, this._cluster, job).catch((error: Error) => this._say(`The job was not cancelled: ${error.message}`));
  }

  private _open(cluster: string): void {
    this._stream?.close();
    this._cluster = cluster;
    this._stream = stream(this._settings, cluster, frame => {
      if (frame.error) {
        this._say(frame.error);
      }
      if (frame.jobs) {
        this._drawJobs(frame.jobs, frame.job ?? this._job);
      }
      if (frame.job !== undefined && frame.job !== this._job) {
        this._show(frame.job);
      }
      if (frame.picture) {
        Object.assign(this._picture, fromJson(frame.picture));
        this._changed();
      }
    });
  }

  private _show(job: string): void {
    this._unmount();
    this._unmount = this._changed = () => undefined;
    this._picture = {};
    this._job = job;
    if (job) {
      const host: Host = {
        get: name => this._picture[name] as never,
        watch: changed => {
          this._changed = changed;
          return () => undefined;
        },
        cancel: id => this._cancel(id)
      };
      this._unmount = mount(this._view, host);
    }
  }

  private _leave(): void {
    this._stream?.close();
    this._stream = null;
    this._cluster = '';
    this._show('');
    morph(this._jobs, []);
  }

  private _drawJobs(jobs: JobRow[], shown: string): void {
    morph(
      this._jobs,
      jobs
        .slice(-20)
        .reverse()
        .map(job =>
          h(
            'li',
            { 'data-state': job.state },
            h('button', { type: 'button', class: 'jm-job', 'data-job': job.id, 'aria-pressed': String(job.id === shown) }, h('span', { class: 'jm-name' }, job.name || job.id), h('span', { class: 'jm-time' }, `${job.state}, ${seconds(job.elapsed)}`)),
            ENDED.includes(job.state) || job.id === shown ? null : h('button', { type: 'button', class: 'jm-button jm-cancel', 'data-cancel': job.id, 'aria-label': `Cancel ${job.name || job.id}` }, 'Cancel')
          )
        )
    );
  }
}
