// The anywidget entry: shows a widget's traits in the view. Cancel is sent by the comm and by the control channel.
import { Host } from '../draw/host';
import { mount } from '../draw/mount';
import { Picture } from '../model/view';
import { ask, hasControl } from './control';

/** The part of anywidget's model that the view uses. */
export interface Model {
  get(name: string): unknown;
  on(event: string, call: () => void): void;
  off(event: string, call: () => void): void;
  send(content: unknown): void;
  widget_manager?: { kernel?: unknown };
}

/** The part of JupyterLab's kernel connection that tells that the kernel is gone. */
interface Kernel {
  statusChanged?: { connect(call: (kernel: unknown, status: string) => void): void; disconnect(call: (kernel: unknown, status: string) => void): void };
}
const ENDED = ['restarting', 'autorestarting', 'terminating', 'dead'];

const WATCHED: (keyof Picture | 'frame')[] = ['graph', 'snap', 'operand_states', 'operand_workers', 'operand_marks', 'stages', 'line_costs', 'kernel', 'workers', 'hosts', 'series', 'plan', 'frame'];
const ANSWER_EVERY = 1000; // ms
const LIVE = 'jmars:live'; // event with the message id of the cell and the display id of the view
const JOB = 'jmars:job'; // event: the view shows another job from now on
const LEFT = 'jmars:left'; // event: a live view is gone, as at the end of its cell
const LOST = 'comm_live_update'; // of ipywidgets: the comm is closed, as it is when the kernel restarts

/** Makes a host of a widget's model. */
export function hostOf(model: Model, now: () => number = Date.now): Host {
  let last = 0;
  let wasHidden = false;
  let gone = false;
  return {
    get: name => model.get(name) as never,
    watch: changed => {
      const { statusChanged } = (model.widget_manager?.kernel ?? {}) as Kernel;
      const lost = () => {
        gone = true;
        changed();
      };
      const heard = (_: unknown, status: string) => {
        if (ENDED.includes(status)) {
          lost();
        }
      };
      WATCHED.forEach(name => model.on(`change:${name}`, changed));
      model.on(LOST, lost);
      statusChanged?.connect(heard);
      return () => {
        WATCHED.forEach(name => model.off(`change:${name}`, changed));
        model.off(LOST, lost);
        statusChanged?.disconnect(heard);
      };
    },
    gone: () => gone,
    deaf: () => !hasControl(model.widget_manager?.kernel),
    line: true,
    cancel: job => {
      ask(model.widget_manager?.kernel, { op: 'cancel', job });
      model.send({ type: 'cancel', job });
    },
    background: () => {
      ask(model.widget_manager?.kernel, { op: 'background', job: model.get('job_id') });
      model.send({ type: 'background' });
    },
    drawn: hidden => {
      const live = (model.get('snap') as { live?: boolean } | null)?.live;
      if (live && !gone && (hidden !== wasHidden || now() - last >= ANSWER_EVERY)) {
        last = now();
        wasHidden = hidden;
        model.send({ type: 'answer', frame: model.get('frame'), hidden });
      }
    }
  };
}

export default {
  render({ model, el }: { model: Model; el: HTMLElement }): () => void {
    const unmount = mount(el, hostOf(model));
    const silence = announce(el, model);
    return () => {
      silence();
      unmount();
    };
  }
};

/** Tells the page, once the view is in it, which cell's outputs belong to the view (a reloaded page has lost them), and each job. */
function announce(el: HTMLElement, model: Model): () => void {
  const detail = model.get('output'); // none where a plain cell shows a job
  let over = !(model.get('snap') as { live?: boolean } | null)?.live;
  const say = (type: string) => el.dispatchEvent(new CustomEvent(type, { bubbles: true, detail }));
  const tell = () => {
    if (el.isConnected && !over) {
      if (detail) {
        say(LIVE);
      }
      say(JOB);
    } else if (!over) {
      requestAnimationFrame(tell);
    }
  };
  const tellJob = () => void say(JOB);
  model.on('change:job_id', tellJob);
  tell();
  return () => {
    if (!over) {
      document.dispatchEvent(new CustomEvent(LEFT)); // `el` may stand in the page no more
    }
    over = true;
    model.off('change:job_id', tellJob);
  };
}
