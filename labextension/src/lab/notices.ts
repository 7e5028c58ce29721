// Notifies at the end of jobs of this server's notebooks: by default of those that no cell waited for, since their kernel was idle while they ran.
import { ENDED } from '../draw/header';
import { seconds } from '../model/format';
import { ClusterRow, JobRow } from './api';
import { jobTitle } from './cards';
import { Preferences } from './settings';

/** An ended job that the user wants to hear of. */
export interface Notice {
  cluster: ClusterRow;
  job: JobRow;
  text: string;
}

/** Remembers the running jobs from one list of clusters to the next. */
export class Ends {
  private _running = new Map<string, boolean>(); // by cluster and job: whether it was seen in the background

  /** The jobs that have ended since the last list, as far as the settings want them told. */
  next(rows: readonly ClusterRow[], { notify, notifyAfter }: Preferences): Notice[] {
    const found: Notice[] = [];
    const running = new Map<string, boolean>();
    for (const cluster of rows) {
      for (const job of cluster.jobs) {
        const key = `${cluster.id} ${job.id}`;
        const before = this._running.get(key);
        if (!ENDED.includes(job.state)) {
          const kernel = cluster.kernels.find(({ id }) => id === job.kernel);
          if (kernel) {
            running.set(key, Boolean(before) || !kernel.busy);
          }
        } else if (before !== undefined && (notify === 'all' || (notify === 'background' && before)) && job.elapsed >= notifyAfter) {
          found.push({ cluster, job, text: `jmars: ${jobTitle(cluster, job)} ${job.state} after ${seconds(job.elapsed)}` });
        }
      }
    }
    this._running = running;
    return found;
  }
}
