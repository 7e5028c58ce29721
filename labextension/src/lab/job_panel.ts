// The view of a job of a cluster, fed by the stream of the Jupyter server: in the side bar and in the main area.
import { ServerConnection } from '@jupyterlab/services';
import { h } from '../draw/dom';
import { Host } from '../draw/host';
import { mount } from '../draw/mount';
import { fromJson } from '../model/bytes';
import { Picture } from '../model/view';
import { cancelJob, JobRow, Stream, stream } from './api';

/** Follows a job, or the newest job of a cluster. */
export class JobPanel {
  readonly node = h('div', { class: 'jm-job-panel' });
  cluster = '';
  job = ''; // that is shown
  private _stream: Stream | null = null;
  private _picture: Partial<Picture> = {};
  private _changed: () => void = () => undefined;
  private _unmount: () => void = () => undefined;
  private readonly _host: Host = {
    get: name => this._picture[name] as never,
    watch: changed => {
      this._changed = changed;
      return () => undefined;
    },
    cancel: job => this.cancel(job)
  }; // of all jobs, so that the next one opens at the same tab

  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _say: (text: string) => void,
    private readonly _listed: (jobs: JobRow[], shown: string) => void = () => undefined
  ) {}

  /** Follows a cluster from now on; "" shows its newest job. */
  open(cluster: string, job = ''): void {
    this._stream?.close();
    if (cluster !== this.cluster) {
      this._mount(''); // jobs of two clusters have equal ids
    }
    this.cluster = cluster;
    this._stream = stream(this._settings, cluster, frame => {
      if (frame.error) {
        this._say(frame.error);
      }
      if (frame.jobs) {
        this._listed(frame.jobs, frame.job ?? this.job);
      }
      if (frame.job !== undefined && frame.job !== this.job) {
        this._mount(frame.job);
      }
      if (frame.picture) {
        Object.assign(this._picture, fromJson(frame.picture));
        this._changed();
      }
    });
    if (job) {
      this.show(job);
    }
  }

  /** Shows another job of the cluster. */
  show(job: string): void {
    this._stream?.show(job);
  }

  /** Hangs up and keeps what is shown. */
  pause(): void {
    this._stream?.close();
    this._stream = null;
  }

  /** Hangs up and shows nothing. */
  leave(): void {
    this.pause();
    this.cluster = '';
    this._mount('');
  }

  cancel(job: string): void {
    cancelJob(this._settings, this.cluster, job).catch((error: Error) => this._say(`The job was not cancelled: ${error.message}`));
  }

  private _mount(job: string): void {
    this._unmount();
    this._unmount = this._changed = () => undefined;
    this._picture = {};
    this.job = job;
    if (job) {
      this._unmount = mount(this.node, this._host);
    }
  }
}
