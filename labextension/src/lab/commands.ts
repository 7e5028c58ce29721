// The commands of the plugin, for the palette, the side bar and shortcuts.
import { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, ICommandPalette, Notification, showDialog } from '@jupyterlab/apputils';
import { LabIcon } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import { plural } from '../model/format';
import { cancelJob, ClusterRow, JobRow, reportUrl, scaleCluster, stopCluster } from './api';
import { follows, scalable } from './cards';
import { openJob, openTimeline } from './main_area';
import { connectCode, currentKernel, currentNotebook, insertCell, runUnderMagic } from './notebook';
import { openReplay, saveReplay } from './replays';
import { fieldsOf, scaleForm, scaleOrder, tooMany } from './scale_form';
import { Settings } from './settings';
import { Sidebar } from './sidebar';
import { ClusterWatch } from './watch';

const CATEGORY = 'jmars';

/** The label of a command among those of others. */
export function paletteLabel(words: string): string {
  return words.includes(CATEGORY) ? words : `${CATEGORY}: ${words}`;
}

interface About {
  cluster?: string; // its id; else the selected cluster, the cluster of the current notebook, or the newest
  job?: string;
}

export function addCommands(app: JupyterFrontEnd, palette: ICommandPalette | null, watch: ClusterWatch, sidebar: () => Sidebar, settings: Settings, icon: LabIcon): void {
  const alive = () => watch.rows.filter(row => row.alive);
  const clusterOf = ({ cluster }: About): ClusterRow | undefined => {
    const rows = alive();
    const kernel = currentKernel(app);
    const mine = () => rows.find(row => row.kernels.some(({ id }) => kernel && id === kernel));
    return rows.find(row => row.id === (cluster || sidebar().cluster)) ?? (cluster ? undefined : (mine() ?? rows[rows.length - 1]));
  };
  const running = () => {
    const jobs = watch.mine;
    const kernel = currentKernel(app);
    return jobs.filter(({ job }) => kernel && job.kernel === kernel).pop() ?? jobs[jobs.length - 1];
  };
  const failed = (what: string) => (error: Error) => Notification.error(`jmars: ${what}: ${error.message}`, { autoClose: 10000 });
  const show = () => app.shell.activateById(sidebar().id);
  const fresh = (execute: (about: About) => unknown) => async (about: About) => {
    await watch.poll(); // a cluster may have come since the last answer
    return execute(about);
  };
  const add = (id: string, words: string, caption: string, execute: (about: About) => unknown, isEnabled: () => boolean = () => true) => {
    const label = (args: object) => ('isPalette' in args ? paletteLabel(words) : words); // a search hides the category
    app.commands.addCommand(`jmars:${id}`, { label, caption, icon, isEnabled, execute: args => execute(args as About) });
    palette?.addItem({ command: `jmars:${id}`, category: CATEGORY, args: { isPalette: true } });
  };
  const some = () => alive().length > 0;

  add('show', 'Show jmars Clusters', 'Show the side bar of clusters and jobs', show);
  const start = () => {
    show();
    sidebar().openForm();
  };
  add('start', 'Start a Cluster…', 'Open the form that starts a cluster', start);
  add('connect', 'Insert a Cell That Connects', 'Insert a cell that connects the notebook to the selected cluster', fresh(about => {
    const cluster = clusterOf(about);
    if (cluster && !insertCell(app, connectCode(cluster, watch.rows))) {
      Notification.info('jmars: open a notebook first; the cell that connects goes there', { autoClose: 5000 });
    }
  }), some);
  add('scale', 'Scale the Cluster…', 'Change the number of workers or hosts of the selected cluster', fresh(about => scale(clusterOf(about))));
  add('stop', 'Stop the Cluster…', 'End the selected cluster for all its clients', fresh(about => stop(clusterOf(about))), some);
  add('timeline', 'Open the Timeline of the Cluster', 'Open the time line of all jobs of the selected cluster', fresh(about => {
    const cluster = clusterOf(about);
    if (cluster) {
      openTimeline(app, watch.settings, icon, cluster);
    }
  }), some);
  add('open', 'Open the View of the Newest Job', 'Open the view of a job in the main area', fresh(about => {
    const found = jobOf(about);
    if (found) {
      openJob(app, watch.settings, icon, found.cluster, found.job);
    }
  }), () => alive().some(row => row.jobs.length > 0));
  add('report', 'Open the Report of the Newest Job', 'Open the report of a job in a tab of the browser', fresh(about => {
    const found = jobOf(about);
    if (found) {
      window.open(reportUrl(watch.settings, found.cluster.id, found.job.id), '_blank', 'noopener');
    }
  }), () => alive().some(row => row.jobs.length > 0));
  add('save-replay', 'Save the Replay of the Newest Job…', 'Save the run of a job as a file, which jmars.replay shows at any moment of the run', fresh(about => {
    const found = jobOf(about);
    return found && saveReplay(app, watch.settings, found.cluster, found.job).catch(failed('the replay was not saved'));
  }), () => alive().some(row => row.jobs.length > 0));
  add('open-replay', 'Open a Replay…', 'Insert a cell that shows a saved run', () => openReplay(app).catch(failed('the replay was not opened')));
  add('cancel', 'Cancel the Running Job', 'Cancel the running job of this notebook, else the newest', fresh(() => {
    const found = running();
    if (found) {
      cancelJob(watch.settings, found.cluster.id, found.job.id).then(() => watch.poll(), failed('the job was not cancelled'));
    }
  }), () => watch.mine.length > 0);
  add('run-cell', 'Run the Cell with %%jmars', 'Put %%jmars above the selected cell and run it', () => runUnderMagic(app, settings.now.memoryLimit), () => currentNotebook(app) !== null);
  watch.changed.connect(() => app.commands.notifyCommandChanged());

  function jobOf(about: About): { cluster: ClusterRow; job: JobRow } | undefined {
    const cluster = clusterOf(about);
    const job = cluster?.jobs.find(({ id }) => id === about.job) ?? cluster?.jobs[cluster.jobs.length - 1];
    return about.job || job ? cluster && job && { cluster, job } : running();
  }

  async function scale(cluster: ClusterRow | undefined): Promise<void> {
    if (!cluster) {
      start(); // with the number that one wants
      return;
    }
    const now = cluster.hosts || cluster.workers;
    const cores = cluster.kind === 'local' && !cluster.hosts ? cluster.cores : 0;
    const form = scaleForm(scalable(cluster), now, follows(cluster), cluster.bounds, cores);
    const { button } = await showDialog({
      title: `Scale ${cluster.name || cluster.id}`,
      body: new Widget({ node: form }),
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Scale' })],
      focusNodeSelector: cluster.bounds ? '[name=least]' : '[name=n]'
    });
    if (button.accept) {
      const asked = async () => {
        const order = scaleOrder(fieldsOf(form));
        const many = 'n' in order && typeof order.n === 'number' ? tooMany(order.n, now, cores) : '';
        if (!many || (await sure(`Scale ${cluster.name || cluster.id} all the same?`, many, 'Scale'))) {
          await scaleCluster(watch.settings, cluster.id, order);
        }
      };
      await asked().catch(failed('the cluster was not scaled'));
      await watch.poll();
    }
  }

  async function sure(title: string, body: string, label: string): Promise<boolean> {
    return (await showDialog({ title, body, buttons: [Dialog.cancelButton(), Dialog.warnButton({ label })] })).button.accept;
  }

  async function stop(cluster: ClusterRow | undefined): Promise<void> {
    if (!cluster) {
      return;
    }
    const jobs = watch.running.filter(one => one.cluster.id === cluster.id).length;
    const clients = cluster.kernels.length + cluster.others;
    const what = `It ends for all its clients (${plural(clients, 'program')} connected, ${plural(jobs, 'running job')}); its memory is freed, and tensors there are computed anew when they are needed. Reports of its jobs go too: save their replays before.`;
    if (await sure(`Stop ${cluster.name || cluster.id}?`, what, 'Stop')) {
      await stopCluster(watch.settings, cluster.id).catch(failed('the cluster was not stopped'));
      await watch.poll();
    }
  }
}
