// Replays of jobs: saves the run of a job as a file beside the notebook, and inserts a cell that shows a saved run.
import { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, InputDialog, Notification, showDialog } from '@jupyterlab/apputils';
import { ServerConnection } from '@jupyterlab/services';
import { ClusterRow, JobRow, replayFile } from './api';
import { jobName } from './cards';
import { currentNotebook, ENDING, fileName, insertCell, replayCode } from './notebook';

/** The folder of the current notebook, below the folder of the Jupyter server; "" for that one. */
function folderOf(app: JupyterFrontEnd): string {
  const path = currentNotebook(app)?.context?.path ?? '';
  return path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : '';
}

/** Names of the files in a folder, the newest first. */
async function filesIn(app: JupyterFrontEnd, folder: string): Promise<string[]> {
  const { content } = await app.serviceManager.contents.get(folder);
  const files = content as { name: string; last_modified?: string }[];
  return files.sort((a, b) => (b.last_modified ?? '').localeCompare(a.last_modified ?? '')).map(({ name }) => name);
}

/** Asks for a name and saves the run of a job there, so far as it is. */
export async function saveReplay(app: JupyterFrontEnd, settings: ServerConnection.ISettings, cluster: ClusterRow, job: JobRow): Promise<void> {
  const folder = folderOf(app);
  const taken = await filesIn(app, folder);
  const { value, button } = await InputDialog.getText({
    title: `Save the replay of ${jobName(job)}`,
    label: folder ? `File, in ${folder}` : 'File, in the folder of the Jupyter server',
    text: fileName(jobName(job), taken),
    okLabel: 'Save'
  });
  const typed = value?.trim();
  if (!button.accept || !typed) {
    return;
  }
  const name = typed.endsWith(ENDING) ? typed : `${typed}${ENDING}`;
  if (taken.includes(name)) {
    const asked = await showDialog({ title: `Replace ${name}?`, body: 'A file of this name is there already.', buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: 'Replace' })] });
    if (!asked.button.accept) {
      return;
    }
  }
  const content = await replayFile(settings, cluster.id, job.id);
  await app.serviceManager.contents.save(folder ? `${folder}/${name}` : name, { type: 'file', format: 'base64', content });
  const open = { label: 'Insert a cell that shows it', callback: () => void insertReplay(app, name) };
  Notification.success(`jmars: the replay is in ${name}; jmars.replay(${JSON.stringify(name)}) shows it`, { autoClose: 10000, actions: [open] });
}

/** Asks for a file beside the notebook, and inserts a cell that shows it. */
export async function openReplay(app: JupyterFrontEnd): Promise<void> {
  if (!currentNotebook(app)) {
    insertReplay(app, '');
    return;
  }
  const items = (await filesIn(app, folderOf(app))).filter(name => name.endsWith(ENDING));
  const title = 'Open a replay';
  const { value, button } = items.length
    ? await InputDialog.getItem({ title, label: 'File, seen from the notebook', items, editable: true, okLabel: 'Insert a cell' })
    : await InputDialog.getText({ title, label: 'File, seen from the notebook', placeholder: `name${ENDING}`, okLabel: 'Insert a cell' });
  if (button.accept && value?.trim()) {
    insertReplay(app, value.trim());
  }
}

function insertReplay(app: JupyterFrontEnd, file: string): void {
  if (!file || !insertCell(app, replayCode(file))) {
    Notification.info('jmars: open a notebook first; the cell that shows the replay goes there', { autoClose: 5000 });
  }
}
