// Shows a saved job as the full view, a saved replay, and the file of a run. Needs no kernel and no trust, since all texts of the picture are written as text.
import { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ServerConnection } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';
import { h } from '../draw/dom';
import { mount } from '../draw/mount';
import { Saved, showReplay } from '../draw/replayed';
import { fromJson } from '../model/bytes';
import { lastSeen } from '../model/last';
import { REPLAY_TYPE } from '../model/replay';
import { MIME_TYPE } from '../model/view';
import { readReplay } from './api';
import { ENDING } from './notebook';

const RUN_TYPE = 'application/vnd.jmars.run'; // of files that Job.save writes
const RUN = 'jmars-run';
const HEAD = 'jmars run'; // with which the files begin: a multiple of three bytes
const LARGEST = (32 * 2 ** 20 * 4) / 3; // characters of base64 text: as many bytes as the server takes

class SavedJob extends Widget implements IRenderMime.IRenderer {
  private _unmount: () => void = () => undefined;

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const saved = fromJson(model.data[MIME_TYPE] as Record<string, unknown>);
    const picture = saved.snap?.live ? { ...saved, snap: lastSeen(saved.snap) } : saved; // saved in mid-run
    this._unmount();
    this._unmount = mount(this.node, { get: name => picture[name] as never, watch: () => () => undefined, line: true });
  }

  override dispose(): void {
    this._unmount();
    super.dispose();
  }
}

class SavedReplay extends Widget implements IRenderMime.IRenderer {
  private _unmount: () => void = () => undefined;

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._unmount();
    this._unmount = await showReplay(this.node, model.data[REPLAY_TYPE] as Saved);
  }

  override dispose(): void {
    this._unmount();
    super.dispose();
  }
}

/** The file of a run, which the Jupyter server unpacks. */
class RunFile extends Widget implements IRenderMime.IRenderer {
  private _unmount: () => void = () => undefined;

  constructor() {
    super();
    this.addClass('jmars-RunFile');
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const shown = await this._read(String(model.data[RUN_TYPE] ?? '')).then(
      saved => showReplay(this.node, saved),
      (error: Error) => {
        const told = h('p', { class: 'jm-error', role: 'alert' }, error.message);
        this.node.append(told);
        return () => told.remove();
      }
    );
    this._unmount(); // what an earlier version of the file showed
    this._unmount = shown;
    if (this.isDisposed) {
      shown(); // the tab was closed meanwhile
    }
  }

  private async _read(file: string): Promise<Saved> {
    if (!file.startsWith(btoa(HEAD))) {
      throw new Error('This file holds no run that jmars saved. "Open With" in its menu has the editor.');
    }
    if (file.length > LARGEST) {
      throw new Error('This run is too large for a page; jmars.replay shows it in a notebook.');
    }
    return readReplay(ServerConnection.makeSettings(), file);
  }

  override dispose(): void {
    this._unmount();
    super.dispose();
  }
}

const extensions: IRenderMime.IExtension[] = [
  {
    id: 'jmars-lab:mime',
    rendererFactory: { safe: true, mimeTypes: [MIME_TYPE], createRenderer: () => new SavedJob() },
    rank: 0,
    dataType: 'json'
  },
  {
    id: 'jmars-lab:replay',
    rendererFactory: { safe: true, mimeTypes: [REPLAY_TYPE], createRenderer: () => new SavedReplay() },
    rank: 0,
    dataType: 'json'
  },
  {
    id: 'jmars-lab:run',
    rendererFactory: { safe: true, mimeTypes: [RUN_TYPE], createRenderer: () => new RunFile() },
    rank: 0,
    dataType: 'string',
    fileTypes: [{ name: RUN, displayName: 'jmars run', mimeTypes: [RUN_TYPE], extensions: [ENDING], fileFormat: 'base64' }],
    documentWidgetFactoryOptions: { name: 'jmars replay', modelName: 'base64', primaryFileType: RUN, fileTypes: [RUN], defaultFor: [RUN] }
  }
];

export default extensions;
