// Shows a saved job as the full view, and a saved replay. Needs no kernel and no trust, since all texts of the picture are written as text.
import { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';
import { mount } from '../draw/mount';
import { Saved, showReplay } from '../draw/replayed';
import { fromJson } from '../model/bytes';
import { lastSeen } from '../model/last';
import { REPLAY_TYPE } from '../model/replay';
import { MIME_TYPE } from '../model/view';

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
  }
];

export default extensions;
