// What the plugin does to notebooks: inserts a cell that connects, and runs a cell with %%jmars above it.
import { JupyterFrontEnd } from '@jupyterlab/application';
import { ClusterRow } from './api';

export const ENDING = '.run'; // of files of saved runs

interface SharedNotebook {
  cells: readonly { getSource(): string }[];
  insertCell(at: number, cell: { cell_type: 'code'; source: string; metadata: object }): unknown;
}
interface Panel {
  id: string;
  content?: {
    activeCellIndex: number;
    scrollToItem?(at: number, align: 'smart'): Promise<void>;
    activeCell?: { model: { type: string; sharedModel: { getSource(): string; setSource(text: string): void } } } | null;
    model?: { sharedModel?: SharedNotebook } | null;
  };
  context?: { path?: string; sessionContext?: { session?: { kernel?: Kernel | null } | null } };
}
interface Kernel {
  id: string;
  requestExecute(content: { code: string; silent: boolean; store_history: boolean }): { done: Promise<unknown> };
}

/** The notebook of the current tab, if it is one. */
export function currentNotebook(app: JupyterFrontEnd): Panel | null {
  const panel = app.shell.currentWidget as unknown as Panel | null;
  return panel?.content?.model?.sharedModel?.insertCell && panel.content.activeCellIndex >= 0 ? panel : null;
}

/** Id of the kernel of the current notebook; "" for none. */
export function currentKernel(app: JupyterFrontEnd): string {
  return currentNotebook(app)?.context?.sessionContext?.session?.kernel?.id ?? '';
}

/**
 * The code that connects a kernel to a cluster and shows the cluster's widget: by its name where that is a plain word of this
 * cluster alone, else by its id.
 * `%reload_ext` loads the extension too where it is not loaded, and says nothing where it is.
 */
export function connectCode({ id, name }: ClusterRow, all: readonly ClusterRow[]): string {
  const plain = /^[\w.-]+$/.test(name) && all.filter(row => row.name === name).length === 1;
  return `%reload_ext jmars\ncluster = %jmars connect ${plain ? name : id}\ncluster`;
}

/**
 * Inserts code as a cell above the active cell, scrolls to it and selects it, with the keys: Shift+Enter runs it. A cell with this
 * code that is there already is selected instead. Returns whether there is a notebook.
 */
export function insertCell(app: JupyterFrontEnd, source: string): boolean {
  const panel = currentNotebook(app);
  const content = panel?.content;
  if (!content) {
    return false;
  }
  const shared = content.model!.sharedModel!;
  let at = shared.cells.findIndex(cell => cell.getSource() === source);
  if (at < 0) {
    at = Math.max(0, content.activeCellIndex);
    shared.insertCell(at, { cell_type: 'code', source, metadata: {} });
  }
  content.activeCellIndex = at;
  app.shell.activateById(panel.id);
  void content.scrollToItem?.(at, 'smart').catch(() => undefined); // ends without an answer where the notebook is closed meanwhile
  return true;
}

/** The name of a file for the run of a job of that name, which none of `taken` has: "In-3-line-2.run". */
export function fileName(job: string, taken: readonly string[]): string {
  const stem = job.replace(/[^\w.-]+/g, '-').replace(/^[-.]+|[-.]+$/g, '').slice(0, 60) || 'job';
  let name = `${stem}${ENDING}`;
  for (let i = 2; taken.includes(name); i++) {
    name = `${stem}-${i}${ENDING}`;
  }
  return name;
}

/** The code that shows a saved run. */
export function replayCode(file: string): string {
  return `import jmars\njmars.replay(${JSON.stringify(file)})`;
}

/** The source of a cell under `%%jmars`, with the memory limit of the settings. */
export function withMagic(source: string, memoryLimit: string): string {
  return /^\s*%%/.test(source) ? source : `%%jmars${memoryLimit ? ` --memory ${memoryLimit.replace(/\s/g, '')}` : ''}\n${source}`;
}

/** Puts %%jmars above the active cell and runs it; loads the extension into the kernel first. */
export async function runUnderMagic(app: JupyterFrontEnd, memoryLimit: string): Promise<void> {
  const panel = currentNotebook(app);
  const cell = panel?.content?.activeCell?.model;
  if (!panel || cell?.type !== 'code') {
    return;
  }
  cell.sharedModel.setSource(withMagic(cell.sharedModel.getSource(), memoryLimit));
  await panel.context?.sessionContext?.session?.kernel?.requestExecute({ code: '%load_ext jmars', silent: true, store_history: false }).done;
  await app.commands.execute('notebook:run-cell');
}
