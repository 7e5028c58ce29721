// The user's settings: schema/plugin.json describes them. Those of the view reach it as attributes of the page's body,
// since the view under a cell is another bundle.
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ISignal, Signal } from '@lumino/signaling';

export interface Preferences {
  tab: string; // that a view opens first
  view: string; // "auto", "line" or "full": how a view begins
  states: string; // colours of the states
  workers: number; // of a new cluster; 0: one per core
  memoryLimit: string; // of a new cluster and of "run cell with %%jmars"; "": the default
  statusBar: boolean;
  notify: string; // "background", "all" or "none"
  notifyAfter: number; // seconds
}

export const DEFAULTS: Preferences = { tab: 'lines', view: 'auto', states: 'colours', workers: 0, memoryLimit: '', statusBar: true, notify: 'background', notifyAfter: 5 };

/** The settings, with the defaults while they are not loaded or where there is no registry. */
export class Settings {
  now: Preferences = DEFAULTS;
  private readonly _changed = new Signal<this, void>(this);

  /** Emitted after a change. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  async load(registry: ISettingRegistry, plugin: string): Promise<void> {
    const found = await registry.load(plugin);
    const take = () => this.take(found.composite as Partial<Preferences>);
    found.changed.connect(take);
    take();
  }

  take(found: Partial<Preferences>): void {
    this.now = { ...DEFAULTS, ...found };
    const { tab, view, states } = this.now;
    Object.assign(document.body.dataset, { jmarsTab: tab, jmarsView: view, jmarsStates: states });
    this._changed.emit();
  }
}
