// The JupyterLab plugin: adds the side bar on the right.
import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { LabIcon } from '@jupyterlab/ui-components';
import { keepOutputs } from './outputs';
import { Sidebar } from './sidebar';

const icon = new LabIcon({
  name: 'jmars:icon',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="16"><g class="jp-icon3" fill="#616161">' +
    '<rect x="2" y="3" width="6" height="4" rx="1"/><rect x="2" y="10" width="6" height="4" rx="1"/><rect x="2" y="17" width="6" height="4" rx="1"/>' +
    '<rect x="16" y="10" width="6" height="4" rx="1"/><path d="M8 5h2l4 7h2M8 12h8M8 19h2l4-7" fill="none" stroke="#616161" class="jp-icon3-stroke jp-icon-stroke" stroke-width="1.4"/></g></svg>'
});

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jmars-lab:plugin',
  description: 'Clusters and jobs of jmars in the side bar.',
  autoStart: true,
  optional: [ILayoutRestorer],
  activate: (app: JupyterFrontEnd, restorer: ILayoutRestorer | null) => {
    const sidebar = new Sidebar();
    sidebar.title.icon = icon;
    sidebar.title.caption = 'jmars clusters';
    app.shell.add(sidebar, 'right', { rank: 300 });
    restorer?.add(sidebar, sidebar.id);
    keepOutputs(app);
    app.commands.addCommand('jmars:show', {
      label: 'Show jmars Clusters',
      execute: () => app.shell.activateById(sidebar.id)
    });
  }
};

export default plugin;
