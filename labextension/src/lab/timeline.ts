// The time line of all jobs of a cluster: one lane for each worker, in the main area.
import { ServerConnection } from '@jupyterlab/services';
import { h } from '../draw/dom';
import { drawLanes, pieceAt } from '../draw/lanes';
import { count, plural, seconds } from '../model/format';
import { WorkerRow } from '../model/view';
import { History, Stream, stream } from './api';

/** Follows the time line of a cluster. */
export class Timeline {
  readonly node = h('section', { class: 'jm jm-history', 'aria-label': 'time line of a cluster' });
  private readonly _facts = h('p', { class: 'jm-note', role: 'status' }, 'No operand has run yet.');
  private readonly _lanes = h('div', { class: 'jm-timeline' });
  private readonly _stream: Stream;
  private readonly _sizes = new ResizeObserver(() => this._draw());
  private _history: History | null = null;

  constructor(settings: ServerConnection.ISettings, cluster: string) {
    this.node.append(this._facts, this._lanes);
    this._stream = stream(settings, cluster, frame => {
      if (frame.history) {
        this._history = frame.history;
        this._draw();
      }
      if (frame.error) {
        this._facts.textContent = frame.error;
      }
    }, true);
    this._sizes.observe(this.node);
    this._lanes.addEventListener('mousemove', event => this._point(event));
  }

  dispose(): void {
    this._stream.close();
    this._sizes.disconnect();
  }

  private get _workers(): WorkerRow[] {
    return (this._history?.workers ?? []).map(name => ({ name }) as WorkerRow);
  }

  private _draw(): void {
    const now = this._history;
    if (now) {
      this._facts.textContent = `${plural(now.jobs, 'job')}, ${count(now.operands)} operands in ${seconds(now.elapsed)}, since ${new Date(1000 * now.begun).toLocaleTimeString()}`;
      drawLanes(this._lanes, now.lanes, this._workers, null, null, now.elapsed);
    }
  }

  private _point(event: MouseEvent): void {
    const chart = this._lanes.querySelector('svg');
    const told = this._lanes.querySelector('.jm-told');
    if (chart && told && this._history) {
      const box = chart.getBoundingClientRect();
      const text = pieceAt(this._lanes, this._history.lanes, this._workers, null, null, this._history.elapsed, event.clientX - box.left, event.clientY - box.top);
      told.textContent = text || told.textContent;
    }
  }
}
