// The JupyterLab plugin: the side bar on the right, commands, settings, the status bar's item and notifications.
import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { ServerConnection } from '@jupyterlab/services';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { LabIcon } from '@jupyterlab/ui-components';
import { addCommands } from './commands';
import { editorPlugin } from './editor';
import { currentKernel } from './notebook';
import { Ends } from './notices';
import { JOB, keepOutputs, LEFT, LIVE } from './outputs';
import { Settings } from './settings';
import { Sidebar } from './sidebar';
import { StatusItem } from './status';
import { ClusterWatch } from './watch';

const ID = 'jmars-lab:plugin';
const icon = new LabIcon({
  name: 'jmars:icon',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="16"><g class="jp-icon3" fill="#616161">' +
    '<rect x="2" y="3" width="6" height="4" rx="1"/><rect x="2" y="10" width="6" height="4" rx="1"/><rect x="2" y="17" width="6" height="4" rx="1"/>' +
    '<rect x="16" y="10" width="6" height="4" rx="1"/><path d="M8 5h2l4 7h2M8 12h8M8 19h2l4-7" fill="none" stroke="#616161" class="jp-icon3-stroke jp-icon-stroke" stroke-width="1.4"/></g></svg>'
});

const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Clusters and jobs of jmars in the side bar.',
  autoStart: true,
  optional: [ILayoutRestorer, ICommandPalette, ISettingRegistry, IStatusBar],
  activate: (app: JupyterFrontEnd, restorer: ILayoutRestorer | null, palette: ICommandPalette | null, registry: ISettingRegistry | null, statusBar: IStatusBar | null) => {
    const settings = new Settings();
    const watch = new ClusterWatch(ServerConnection.makeSettings());
    const sidebar: Sidebar = new Sidebar(watch, () => settings.now, (word, cluster, job) => void app.commands.execute(`jmars:${word}`, { cluster, job }), () => currentKernel(app));
    sidebar.title.icon = icon;
    sidebar.title.caption = 'jmars clusters';
    app.shell.add(sidebar, 'right', { rank: 300 });
    restorer?.add(sidebar, sidebar.id);
    app.shell.currentChanged?.connect(() => void watch.poll()); // the cluster of the notebook in front comes first
    keepOutputs(app);
    addCommands(app, palette, watch, () => sidebar, settings, icon);
    document.addEventListener(LIVE, () => void watch.poll()); // a cell has begun
    document.addEventListener(JOB, () => watch.expect()); // and has a job, seconds later perhaps
    document.addEventListener(LEFT, () => void watch.poll()); // and has ended

    const item = new StatusItem(watch, () => app.shell.activateById(sidebar.id));
    statusBar?.registerStatusItem(ID, {
      item,
      align: 'left',
      rank: 900,
      isActive: () => settings.now.statusBar && watch.mine.length > 0,
      activeStateChanged: watch.changed as never
    });

    const ends = new Ends();
    watch.changed.connect(() => {
      for (const { cluster, job, text } of ends.next(watch.rows, settings.now)) {
        const open = { label: 'Open the view', callback: () => void app.commands.execute('jmars:open', { cluster: cluster.id, job: job.id }) };
        Notification.emit(text, job.state === 'succeeded' ? 'success' : job.state === 'failed' ? 'error' : 'warning', { autoClose: 10000, actions: [open] });
      }
    });
    if (registry) {
      settings.load(registry, ID).catch(error => console.warn('jmars: the settings cannot be read, so the defaults hold:', error));
    }
  }
};

export default [plugin, editorPlugin];
