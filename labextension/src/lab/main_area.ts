// Opens the view of a job, and the time line of a cluster, in the main area.
import { JupyterFrontEnd } from '@jupyterlab/application';
import { CommandToolbarButton, MainAreaWidget } from '@jupyterlab/apputils';
import { ServerConnection } from '@jupyterlab/services';
import { LabIcon } from '@jupyterlab/ui-components';
import { SplitPanel, TabPanel, Widget } from '@lumino/widgets';
import { h } from '../draw/dom';
import { ClusterRow, JobRow } from './api';
import { JobPanel } from './job_panel';
import { Timeline } from './timeline';

const LEAST_BELOW = 0.45; // share of the height for the area below in Notebook 7, which opens as a narrow strip

/** Shows `node` in a tab of its own; an open one of that id comes to the front. Notebook 7 has no tabs: the area below. */
function open(app: JupyterFrontEnd, id: string, label: string, icon: LabIcon, make: () => { node: HTMLElement; end: () => void }, tools: () => Record<string, Widget> = () => ({})): void {
  for (const area of ['main', 'down']) {
    const known = [...app.shell.widgets(area)].find(one => one.id === id);
    if (known) {
      toFront(app, known);
      return;
    }
  }
  const { node, end } = make();
  const content = new Widget();
  content.addClass('jmars-Main');
  content.node.append(node);
  const widget = new MainAreaWidget({ content });
  widget.id = id;
  widget.title.label = label;
  widget.title.icon = icon;
  widget.title.closable = true;
  widget.disposed.connect(end);
  Object.entries(tools()).forEach(([name, tool]) => widget.toolbar.addItem(name, tool));
  const beside = [...app.shell.widgets('main')].find(one => one.id.startsWith('jmars-'));
  app.shell.add(widget, 'main', beside ? { mode: 'tab-after', ref: beside.id } : { mode: 'split-right' });
  if (!widget.isAttached) {
    app.shell.add(widget, 'down');
  }
  toFront(app, widget);
}

function toFront(app: JupyterFrontEnd, widget: Widget): void {
  const below = widget.parent?.parent; // Notebook 7 activates a widget of the area below without showing its tab
  if (below instanceof TabPanel) {
    below.currentWidget = widget;
    const split = below.parent;
    if (split instanceof SplitPanel) {
      const at = split.widgets.indexOf(below);
      const sizes = split.relativeSizes();
      if (sizes[at] < LEAST_BELOW) {
        split.setRelativeSizes(sizes.map((size, i) => (i === at ? LEAST_BELOW : size * (1 - LEAST_BELOW))));
      }
    }
  }
  app.shell.activateById(widget.id);
}

export function openJob(app: JupyterFrontEnd, settings: ServerConnection.ISettings, icon: LabIcon, cluster: ClusterRow, job: JobRow): void {
  const button = (id: string, label: string) => new CommandToolbarButton({ commands: app.commands, id: `jmars:${id}`, label, args: { cluster: cluster.id, job: job.id } });
  const tools = () => ({ report: button('report', 'Report'), replay: button('save-replay', 'Save replay…') });
  open(app, `jmars-job-${cluster.id}-${job.id}`, `${job.name || job.id} (jmars)`, icon, () => {
    const note = h('p', { class: 'jm-note', role: 'status', hidden: true });
    const panel = new JobPanel(settings, text => {
      note.textContent = text;
      note.hidden = false;
    });
    panel.open(cluster.id, job.id);
    return { node: h('div', {}, note, panel.node), end: () => panel.leave() };
  }, tools);
}

export function openTimeline(app: JupyterFrontEnd, settings: ServerConnection.ISettings, icon: LabIcon, cluster: ClusterRow): void {
  open(app, `jmars-timeline-${cluster.id}`, `Timeline of ${cluster.name || cluster.id}`, icon, () => {
    const timeline = new Timeline(settings, cluster.id);
    return { node: timeline.node, end: () => timeline.dispose() };
  });
}
