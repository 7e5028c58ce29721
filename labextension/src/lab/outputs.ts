// Keeps the last picture of a view in the notebook. A kernel that is gone, or a cell whose page was reloaded, replaces no
// output; so the view sends its last picture up the page as an event, and the output that shows the view takes it.
import { JupyterFrontEnd } from '@jupyterlab/application';

export const LAST = 'jmars:last'; // of draw/mount.ts
const WIDGET = 'application/vnd.jupyter.widget-view+json';

interface Output {
  toJSON(): { data?: Record<string, unknown>; output_type?: string };
}
interface Cell {
  node: HTMLElement;
  outputArea?: { widgets: readonly { node: HTMLElement }[]; model: { length: number; get(at: number): Output; set(at: number, output: unknown): void } };
}

/** Lets the notebooks of the application take last pictures. */
export function keepLastPictures(app: JupyterFrontEnd): void {
  document.addEventListener(LAST, event => {
    const { target, detail } = event as CustomEvent<Record<string, unknown>>;
    for (const widget of app.shell.widgets('main')) {
      if (widget.node.contains(target as Node)) {
        const cells = (widget as { content?: { widgets?: readonly Cell[] } }).content?.widgets ?? [];
        take(cells.find(cell => cell.node.contains(target as Node)), target as Node, detail);
      }
    }
  });
}

function take(cell: Cell | undefined, view: Node, data: Record<string, unknown>): void {
  const area = cell?.outputArea;
  const at = area ? area.widgets.findIndex(one => one.node.contains(view)) : -1;
  const output = at >= 0 && at < area!.model.length ? area!.model.get(at).toJSON() : null;
  if (output?.data && WIDGET in output.data) {
    area!.model.set(at, { output_type: 'display_data', data, metadata: {} });
  }
}
