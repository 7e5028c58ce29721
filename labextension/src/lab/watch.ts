// Polls the list of clusters for all parts of the plugin: twice a second while a job runs in a page that is seen, often while
// somebody looks or a job runs, else now and then.
import { ServerConnection } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';
import { ENDED } from '../draw/header';
import { ClusterRow, clusters, JobRow } from './api';

const MOVING = 500; // ms
const OFTEN = 2000;
const SELDOM = 10000;

/** The clusters as the Jupyter server told them last. */
export class ClusterWatch {
  rows: readonly ClusterRow[] = [];
  error = ''; // of the last question
  private readonly _changed = new Signal<this, void>(this);
  private _lookers = 0;
  private _timer = 0;
  private _asking: Promise<void> | null = null;
  private _again: Promise<void> | null = null; // the question after `_asking`

  constructor(readonly settings: ServerConnection.ISettings) {
    document.addEventListener('visibilitychange', this._seen);
    void this.poll();
  }

  /** Emitted after each answer. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The running jobs of all clusters, newest last. */
  get running(): { cluster: ClusterRow; job: JobRow }[] {
    return this.rows.flatMap(cluster => cluster.jobs.filter(job => !ENDED.includes(job.state)).map(job => ({ cluster, job })));
  }

  /** Those of them that notebooks of this Jupyter server submitted. */
  get mine(): { cluster: ClusterRow; job: JobRow }[] {
    return this.running.filter(({ job }) => job.kernel);
  }

  /** Asks often until `leave` is called. */
  look(): () => void {
    this._lookers++;
    void this.poll();
    let here = true;
    return () => {
      this._lookers -= Number(here);
      here = false;
    };
  }

  /** Asks now; while a question is under way, whose answer may be older than the caller's news, once more after it. */
  poll(): Promise<void> {
    if (this._asking) {
      this._again ??= this._asking.then(() => {
        this._again = null;
        return this.poll();
      });
      return this._again;
    }
    this._asking = this._ask().finally(() => {
      this._asking = null;
      this._later();
    });
    return this._asking;
  }

  /** Asks now if no running job is known: the view of a cell shows a job from now on. */
  expect(): void {
    if (!this.running.length) {
      void this.poll();
    }
  }

  dispose(): void {
    window.clearTimeout(this._timer);
    this._timer = -1;
    document.removeEventListener('visibilitychange', this._seen);
    Signal.clearData(this);
  }

  private readonly _seen = (): void => {
    if (!document.hidden) {
      void this.poll();
    }
  };

  private async _ask(): Promise<void> {
    try {
      this.rows = await clusters(this.settings);
      this.error = '';
    } catch (error) {
      this.error = error instanceof Error ? error.message : 'unknown';
    }
    this._changed.emit();
  }

  private _later(): void {
    if (this._timer >= 0) {
      window.clearTimeout(this._timer);
      const runs = this.running.length > 0;
      const wait = runs && !document.hidden ? MOVING : runs || (this._lookers > 0 && !document.hidden) ? OFTEN : SELDOM;
      this._timer = window.setTimeout(() => void this.poll(), wait);
    }
  }
}
