// Outputs of cells that the page does not know of. A kernel that is gone, or a cell whose page was reloaded, replaces no
// output; so the view sends its last picture up the page as an event, and the output that shows the view takes it. The rest
// of a cell's outputs after a reload (prints, the result, the final picture) is taken from the kernel's messages. A notebook
// that was saved in mid-run has the picture of that moment beside the widget, for a page that finds no kernel with its model.
import { JupyterFrontEnd } from '@jupyterlab/application';
import { MIME_TYPE } from '../model/view';

export const LAST = 'jmars:last'; // of draw/mount.ts
export const LIVE = 'jmars:live'; // of widgets/index.ts
export const JOB = 'jmars:job'; // of widgets/index.ts
export const LEFT = 'jmars:left'; // of widgets/index.ts
const WIDGET = 'application/vnd.jupyter.widget-view+json';

interface Output {
  toJSON(): { data?: Record<string, unknown>; output_type?: string };
}
interface Area {
  widgets: readonly { node: HTMLElement }[];
  model: { length: number; get(at: number): Output; set(at: number, output: unknown): void; add(output: unknown): void; clear(wait?: boolean): void };
  future?: { msg: Message } | null; // of the page that ran the cell
}
interface Cell {
  node: HTMLElement;
  outputArea?: Area;
  model?: { executionCount?: number | null };
}
interface Message {
  header: { msg_id: string; msg_type: string };
  parent_header: { msg_id?: string };
  content: Record<string, unknown> & { transient?: { display_id?: string } };
}
interface Messages {
  connect(call: (sender: unknown, message: Message) => void): void;
  disconnect(call: (sender: unknown, message: Message) => void): void;
}
interface Panel {
  content?: { widgets?: readonly Cell[] };
  context?: { sessionContext?: { ready: Promise<void>; session?: { kernel?: Kernel | null } | null } };
}
interface Kernel {
  iopubMessage: Messages;
  requestCommInfo(about: { target_name: string }): Promise<{ content: { comms?: Record<string, unknown> } }>;
}
/** The message that ran the cell, and the display id of its view. */
export interface Origin {
  parent: string;
  display: string;
}

/** Lets the notebooks of the application take last pictures, and outputs after a reload. */
export function keepOutputs(app: JupyterFrontEnd): void {
  const each = (type: string, call: (panel: Panel, cell: Cell, view: Node, detail: never) => void) =>
    document.addEventListener(type, event => {
      const { target, detail } = event as CustomEvent<never>;
      for (const panel of app.shell.widgets('main')) {
        const cell = (panel as Panel).content?.widgets?.find(one => one.node.contains(target as Node));
        if (cell) {
          call(panel as Panel, cell, target as Node, detail);
        }
      }
    });
  app.docRegistry.addWidgetExtension('Notebook', { createNew: (panel, context) => void context.ready.then(() => showWithoutModel(panel as unknown as Panel)) });
  each(LAST, (_, cell, view, picture) => replace(cell.outputArea, view, picture));
  each(LIVE, (panel, cell, view, origin) => follow(panel.context?.sessionContext?.session?.kernel?.iopubMessage, cell, view, origin));
}

/** Puts the data of a picture in place of the widget that shows the view. */
function replace(area: Area | undefined, view: Node, data: Record<string, unknown>): void {
  const at = area ? area.widgets.findIndex(one => one.node.contains(view)) : -1;
  const output = at >= 0 && at < area!.model.length ? area!.model.get(at).toJSON() : null;
  if (output?.data && WIDGET in output.data) {
    area!.model.set(at, { output_type: 'display_data', data, metadata: {} });
  }
}

/** Drops saved widgets that the kernel does not know, where a picture stands beside them. */
async function showWithoutModel({ content, context }: Panel): Promise<void> {
  await context?.sessionContext?.ready;
  const kernel = context?.sessionContext?.session?.kernel;
  const known = (await kernel?.requestCommInfo({ target_name: 'jupyter.widget' }))?.content.comms ?? {};
  for (const { outputArea: area } of content?.widgets ?? []) {
    for (let at = 0; area && at < area.model.length; at++) {
      const { [WIDGET]: widget, ...data } = area.model.get(at).toJSON().data ?? {};
      if (widget && MIME_TYPE in data && !((widget as { model_id: string }).model_id in known)) {
        area.model.set(at, { output_type: 'display_data', data, metadata: {} });
      }
    }
  }
}

const followed = new Set<string>();

/** Adds the cell's outputs that the kernel sends from now on, until the cell and its view have ended. */
export function follow(messages: Messages | undefined, cell: Cell, view: Node, { parent, display }: Origin): void {
  const area = cell.outputArea;
  if (!messages || !area || followed.has(parent) || area.future?.msg.header.msg_id === parent) {
    return;
  }
  followed.add(parent);
  messages.connect((_, { header, parent_header, content }) => {
    if (header.msg_type === 'update_display_data' && content.transient?.display_id === display) {
      replace(area, view, content.data as Record<string, unknown>);
    } else if (parent_header.msg_id !== parent) {
      return;
    } else if (header.msg_type === 'clear_output') {
      area.model.clear(content.wait as boolean);
    } else if (['stream', 'display_data', 'execute_result', 'error'].includes(header.msg_type)) {
      const { transient, ...output } = content;
      area.model.add({ ...output, output_type: header.msg_type });
      if (header.msg_type === 'execute_result' && cell.model) {
        cell.model.executionCount = content.execution_count as number;
      }
    }
  });
}
