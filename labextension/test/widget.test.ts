import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { asBytes, fromJson } from '../src/model/bytes';
import { MIME_TYPE, Picture } from '../src/model/view';
import { ask } from '../src/widgets/control';
import widget, { hostOf, Model } from '../src/widgets/index';
import { picture } from './pictures';

let shown: Picture;

beforeEach(() => {
  shown = picture();
  HTMLCanvasElement.prototype.getContext = (() => null) as never; // jsdom draws nothing
});
afterEach(() => {
  document.body.replaceChildren();
  vi.restoreAllMocks();
});

describe('the widget', () => {
  const model = (kernel?: unknown) => {
    const calls: Record<string, (() => void)[]> = {};
    const sent: unknown[] = [];
    const it: Model = {
      get: name => (name === 'frame' ? 7 : shown[name as keyof Picture]),
      on: (event, call) => void (calls[event] = calls[event] || []).push(call),
      off: (event, call) => void (calls[event] = (calls[event] || []).filter(other => other !== call)),
      send: content => sent.push(content),
      widget_manager: { kernel }
    };
    return { it, calls, sent };
  };
  test('cancel goes by the comm and by the control channel', () => {
    const control: { header: { msg_type: string; msg_id: string }; content: unknown; channel: string }[] = [];
    const kernel = { clientId: 'c', sendControlMessage: (message: never) => (control.push(message), { done: Promise.reject(new Error('gone')) }) };
    const { it, sent } = model(kernel);
    hostOf(it).cancel!('job-1');
    expect(hostOf(it).deaf!()).toBe(false);
    expect(sent).toEqual([{ type: 'cancel', job: 'job-1' }]);
    expect(control[0]).toMatchObject({ channel: 'control', header: { msg_type: 'jmars_request', session: 'c' }, content: { op: 'cancel', job: 'job-1' } });
    expect(control[0].header.msg_id).toMatch(/^[0-9a-f]{32}$/);
  });
  test('without a control channel the comm is enough', () => {
    const { it, sent } = model();
    hostOf(it).cancel!('job-1');
    hostOf(it).background!();
    expect(sent).toEqual([{ type: 'cancel', job: 'job-1' }, { type: 'background' }]);
    expect(ask(null, {})).toBe(false);
    expect(hostOf(it).deaf!()).toBe(true);
  });
  test('frames are answered once a second, and when the page is hidden or seen', () => {
    const { it, sent } = model();
    let now = 1000;
    const answer = hostOf(it, () => now).drawn!;
    answer(false);
    answer(false);
    now += 999;
    answer(false);
    answer(true);
    answer(true);
    now += 1000;
    answer(false);
    expect(sent).toEqual([false, true, false].map(hidden => ({ type: 'answer', frame: 7, hidden })));
    shown.snap.live = false;
    now += 5000;
    answer(false);
    expect(sent.length).toBe(3);
  });
  test.each(['comm', 'restarting', 'dead'])('a kernel that is gone (%s) is said, without buttons, and the picture is kept', async way => {
    const heard: ((kernel: unknown, status: string) => void)[] = [];
    const statusChanged = { connect: (call: never) => void heard.push(call), disconnect: (call: never) => void heard.splice(heard.indexOf(call), 1) };
    const { it, calls } = model({ statusChanged });
    const kept: Record<string, unknown>[] = [];
    const listen = (event: Event) => kept.push((event as CustomEvent).detail);
    document.addEventListener('jmars:last', listen);
    const el = document.body.appendChild(document.createElement('div'));
    const start = Date.now();
    let late = 0;
    vi.spyOn(Date, 'now').mockImplementation(() => start + late);
    const unmount = widget.render({ model: it, el });
    heard.forEach(call => call(null, 'busy'));
    await vi.waitFor(() => expect(el.querySelector('.jm-state')!.textContent).toBe('running'));
    late = 2000; // ms: a frame is to be answered
    it.send = () => {
      throw new Error('Cannot send'); // as the comm of a kernel that is gone
    };
    if (way === 'comm') {
      calls.comm_live_update.forEach(call => call());
    } else {
      heard.forEach(call => call(null, way));
    }
    await vi.waitFor(() => expect(kept.length).toBe(1));
    expect(el.querySelector('.jm-state')!.textContent).toBe('kernel gone');
    expect(el.querySelector('.jm-time')!.textContent).toMatch(/^last seen at \d+ %/);
    expect([...el.querySelectorAll('.jm-buttons button')].every(one => (one as HTMLElement).hidden)).toBe(true);
    expect(kept[0]['text/plain']).toMatch(/the kernel is gone; last seen at \d+ %/);
    const saved = fromJson(kept[0][MIME_TYPE] as Record<string, unknown>) as Picture;
    expect(saved.snap).toMatchObject({ state: 'kernel gone', live: false });
    expect(asBytes(saved.operand_states)).toEqual(asBytes(shown.operand_states));
    unmount();
    expect(heard).toEqual([]);
    document.removeEventListener('jmars:last', listen);
  });
  test('the page hears of each job that the view shows, until it is unmounted', () => {
    const { it, calls } = model();
    let heard = 0;
    const listen = () => heard++;
    document.addEventListener('jmars:job', listen);
    const unmount = widget.render({ model: it, el: document.body.appendChild(document.createElement('div')) });
    expect(heard).toBe(1); // that a plain cell shows, without an output of its own
    calls['change:job_id'].forEach(call => call());
    expect(heard).toBe(2);
    unmount();
    expect(calls['change:job_id']).toEqual([]);
    document.removeEventListener('jmars:job', listen);
  });
  test('the page hears once that a live view is gone, of a view that has ended never', () => {
    let heard = 0;
    const listen = () => heard++;
    document.addEventListener('jmars:left', listen);
    for (const live of [true, false]) {
      const { it } = model();
      const get = it.get.bind(it);
      it.get = (name: string) => (name === 'snap' ? { ...(get(name) as object), live } : get(name));
      widget.render({ model: it, el: document.createElement('div') })();
    }
    expect(heard).toBe(1);
    document.removeEventListener('jmars:left', listen);
  });
  test('a change of any trait is drawn, until it is unmounted', () => {
    const { it, calls } = model();
    const stop = hostOf(it).watch(() => undefined);
    expect(Object.keys(calls)).toContain('change:operand_states');
    stop();
    expect(Object.values(calls).flat()).toEqual([]);
  });
});
