import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { h, morph } from '../src/draw/dom';
import { Host } from '../src/draw/host';
import { mount } from '../src/draw/mount';
import { Picture } from '../src/model/view';
import { large, picture } from './pictures';

let shown: Picture;
let changed: () => void;
let asked: string[];

function host(): Host {
  return {
    get: name => shown[name],
    watch: call => {
      changed = call;
      return () => undefined;
    },
    cancel: job => asked.push(`cancel ${job}`),
    background: () => asked.push('background')
  };
}
const tick = () => new Promise(resolve => requestAnimationFrame(resolve));
const texts = (selector: string) => [...document.querySelectorAll(selector)].map(node => node.textContent);
const charts = () => [...document.querySelectorAll('svg')].map(chart => chart.getAttribute('aria-label'));
const costs = { makespan: 1, peak: [1, 1], spilled: 1, moved: 1 };
const button = (name: string) => [...document.querySelectorAll('button')].find(node => node.textContent === name) as HTMLButtonElement;

beforeEach(() => {
  shown = picture();
  asked = [];
  HTMLCanvasElement.prototype.getContext = (() => null) as never; // jsdom draws nothing
});
afterEach(() => {
  document.body.replaceChildren();
  vi.restoreAllMocks();
});

describe('the view', () => {
  test('says state, progress and times', () => {
    mount(document.body, host());
    expect(texts('.jm-state')).toEqual(['running']);
    expect(texts('.jm-time')).toEqual(['2 of 5 operands · 1.5 s · about 3.0 s left']);
    expect(document.querySelector('[role=progressbar]')!.getAttribute('aria-valuenow')).toBe('40');
  });
  test('has its own ways for cancel and background, and shows only what the picture says', async () => {
    mount(document.body, host());
    button('Cancel').click();
    expect(asked).toEqual(['cancel job-1']);
    expect(texts('.jm-state')).toEqual(['running']);
    expect(button('Cancelling…').disabled).toBe(true);
    button('To background').click();
    expect(asked).toEqual(['cancel job-1', 'background']);
    shown = picture({ snap: { ...shown.snap, state: 'cancelled', live: false } });
    changed();
    await tick();
    expect(texts('.jm-state')).toEqual(['cancelled']);
    expect(button('Cancelling…').hidden && button('To background').hidden).toBe(true);
  });
  test('keeps what was opened when the saved view takes its place, also where another job of the cell was shown then', async () => {
    const leave = mount(document.body, host());
    button('Workers').click();
    shown = picture({ snap: { ...shown.snap, job: 'job-2' } });
    changed();
    await tick();
    leave();
    document.body.replaceChildren();
    vi.resetModules(); // the saved view comes from a bundle of its own
    const { mount: saved } = await import('../src/draw/mount');
    saved(document.body, { get: name => shown[name], watch: () => () => undefined });
    const open = () => [...document.querySelectorAll('[role=tab]')].filter(tab => tab.getAttribute('aria-selected') === 'true').map(tab => tab.textContent);
    expect(open()).toEqual(['Workers']);
    expect([...document.querySelectorAll('[role=tabpanel]')].filter(panel => !(panel as HTMLElement).hidden).length).toBe(1);
    document.body.replaceChildren();
    shown = picture({ snap: { ...shown.snap, job: 'job-9' } });
    mount(document.body, host());
    expect(open()).toEqual(['Lines']);
  });
  test('a stage of a large graph is opened and closed by keys and by clicks, and stays open in the saved view', () => {
    vi.spyOn(Element.prototype, 'clientWidth', 'get').mockReturnValue(400);
    shown = { ...large(), snap: { ...large().snap, job: 'job-large' } };
    const leave = mount(document.body, host());
    button('Graph').click();
    const canvas = () => document.querySelector('canvas')!;
    const press = (...keys: string[]) => keys.forEach(key => canvas().dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })));
    const click = (x: number, y: number, kind = 'click', detail = 1) => {
      const event = new MouseEvent(kind, { detail });
      Object.defineProperties(event, { offsetX: { value: x }, offsetY: { value: y } });
      canvas().dispatchEvent(event);
    };
    const told = () => texts('.jm-inspector h4')[0];
    press('ArrowDown', 'ArrowDown');
    expect(told()).toBe('add');
    press('Enter', 'ArrowRight');
    expect(told()).toBe('add: operands 3 to 4 of 6');
    leave();
    mount(document.body, host());
    press('End', 'End', ' ', 'ArrowLeft'); // it is open: the space closes it, and the arrow walks among boxes again
    expect(told()).toBe('add');
    press('Enter', 'Escape');
    expect(told()).toBe('add');
    press('Escape');
    expect(texts('.jm-inspector .jm-note')[0]).toContain('Enter shows its operands');
    click(100, 65, 'dblclick', 2);
    click(20, 80); // where the first mark is then
    expect(told()).toBe('add: operands 1 to 2 of 6');
    click(12, 60); // its arrow
    click(200, 80);
    expect(told()).toBe('add');
  });
  test('may be asked again when nothing has come of it', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout'] });
    mount(document.body, host());
    button('Cancel').click();
    vi.advanceTimersByTime(4000);
    await tick();
    vi.useRealTimers();
    expect(button('Cancel').disabled).toBe(false);
  });
  test('without a host that can, there are no buttons', () => {
    mount(document.body, { get: name => shown[name], watch: () => () => undefined });
    expect(button('Cancel').hidden && button('To background').hidden).toBe(true);
  });
  test('draws an empty picture', () => {
    shown = {} as Picture;
    mount(document.body, host());
    expect(texts('.jm-state')).toEqual(['preparing']);
    for (const tab of document.querySelectorAll<HTMLButtonElement>('[role=tab]')) {
      tab.click();
    }
    expect(texts('.jm-note').length).toBeGreaterThan(0);
  });
  test('tabs are walked by keys', () => {
    mount(document.body, host());
    const tabs = [...document.querySelectorAll<HTMLButtonElement>('[role=tab]')];
    tabs[0].focus();
    const press = (key: string) => document.activeElement!.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    press('ArrowRight');
    expect(document.activeElement).toBe(tabs[1]);
    press('End');
    expect(document.activeElement).toBe(tabs[5]);
    press('ArrowRight');
    expect(document.activeElement).toBe(tabs[0]);
    expect(tabs.map(tab => tab.getAttribute('aria-selected'))).toEqual(['true', 'false', 'false', 'false', 'false', 'false']);
  });
  test('the newest of several stages stands beside the heading of its graph', async () => {
    mount(document.body, host());
    button('Graph').click();
    expect(texts('.jm-graph figcaption')).toEqual(['Before fusion: 9 operands, 8 edges', 'After fusion: 5 operands, 4 edges (4 fused away)']);
    shown = picture({ graph: { ...picture().graph!, stage_number: 3 } });
    changed();
    await tick();
    expect(texts('.jm-graph figcaption').map(text => text!.split(':')[0])).toEqual(['Stage 3, before fusion', 'Stage 3, after fusion']);
  });
  test('tables tell what the canvas shows', () => {
    shown.workers[0].replaced = 2;
    shown.workers[1].memory = 0; // not told yet
    mount(document.body, host());
    button('Operands').click();
    expect(texts('#' + CSS_ID(document.querySelector('.jm-panel:not([hidden])')!) + ' tbody th')).toEqual(['rand', 'add', 'sum']);
    button('Workers').click();
    expect(texts('.jm-panel:not([hidden]) tbody th')).toEqual(['worker-0', 'worker-1']);
    expect(texts('.jm-panel:not([hidden]) .jm-note > .jm-aside')).toEqual(['Assigned: operands planned for a worker. ']); // goes with its column
    expect(texts('.jm-panel:not([hidden]) tbody td.jm-word')).toEqual(['busy, replaced 2 times', 'idle']);
    expect(texts('.jm-panel:not([hidden]) tbody td.jm-cell > span:first-child')).toEqual(['1.0 MiB', '–']);
    button('Memory & spill').click();
    expect(charts()).toEqual(['memory over 1.0 s: peak 2.0 MiB', 'chunks on disk over 1.0 s: at most 64 B, 64 B at the end']);
  });
  test('bytes on disk have a panel and a scale of their own, where there were any', async () => {
    const scale = (at: number) => [...document.querySelectorAll('svg')[at].querySelectorAll('g text')].map(text => text.textContent);
    shown.series = { ...shown.series, limit: 0, spilled: [0, 2 ** 30] };
    mount(document.body, host());
    button('Memory & spill').click();
    expect([scale(0)[4], scale(1)[2]]).toEqual(['2.0 MiB', '1.0 GiB']);
    shown = picture({ series: { ...shown.series, spilled: [0, 0] } });
    changed();
    await tick();
    expect(charts()).toEqual(['memory over 1.0 s: peak 2.0 MiB']);
  });
  test('tells the bytes that jmars keeps in the kernel, where the kernel draws', async () => {
    const row = () => [...document.querySelectorAll('.jm-facts div')].map(it => it.textContent!).filter(text => text.includes('kernel'));
    mount(document.body, host());
    button('Memory & spill').click();
    expect(row()).toEqual([]);
    shown = picture({ series: { ...shown.series!, kernel: 2 ** 20 } });
    changed();
    await tick();
    expect(row()).toEqual(['kept in the kernel now1.0 MiB']);
  });
  test('tells the memory of GPUs where there are any', async () => {
    const words = () => texts('.jm-facts dt').filter(text => text!.includes('GPU'));
    mount(document.body, host());
    button('Memory & spill').click();
    expect(words()).toEqual([]);
    shown = picture({ series: { ...shown.series!, device: 64, device_memory: 2 ** 20 } });
    changed();
    await tick();
    expect(words()).toHaveLength(2);
    expect(texts('.jm-facts dd')).toEqual(expect.arrayContaining(['64 B', '1.0 MiB']));
  });
  test('says what was predicted beside what was measured, and what else was tried', async () => {
    const cells = () => [...document.querySelectorAll('.jm-plan tbody tr')].map(row => [...row.children].map(cell => cell.textContent));
    mount(document.body, host());
    button('Plan').click();
    expect(texts('.jm-plan .jm-note')).toEqual(['There is no plan yet.']);
    shown = picture({ plan: { predicted: null, measured: null, lower_bound: 0, chosen: '', tried: [], stage: 2, replans: 0, why: '', refused: [], advice: [] } });
    changed();
    await tick();
    expect(texts('.jm-plan .jm-note')).toEqual(['There is no prediction: planning would take longer than it can gain, so operands run in the order of the graph.']);
    const predicted = { makespan: 2, peak: [2 ** 20, 2 ** 21], spilled: 0, moved: 0 };
    const tried = [
      { name: 'eft 3, dfs', makespan: 2, peak: 2 ** 21, spilled: 0, moved: 0 },
      { name: 'halves, blevel', makespan: 0.04, peak: 2 ** 20, spilled: 0, moved: 0 }
    ];
    const plan = { predicted, measured: null, lower_bound: 1.5, chosen: 'eft 3, dfs', tried, stage: 1, replans: 0, why: '', refused: [], advice: [] as string[] };
    shown = picture({ plan });
    changed();
    await tick();
    expect(texts('.jm-time')[0]).toMatch(/about 3.0 s left$/);
    expect(texts('.jm-plan .jm-note')).toEqual(['No plan takes less than 1.50 s. Chosen: eft 3, dfs (dfs: depth first, so that few chunks wait; eft: each operand to the worker that ends it first), of 2 tried.']);
    expect(cells()[0]).toEqual(['time', '2.00 s', '–', '–']);
    expect(cells().slice(4).map(row => row.slice(0, 2))).toEqual([['eft 3, dfs', '2.00 s'], ['halves, blevel', '40 ms']]);
    const measured = { makespan: 2.5, peak: [2 ** 20, 2 ** 20], spilled: 0, moved: 0 };
    shown = picture({ plan: { ...plan, measured, stage: 3, replans: 2, why: 'worker-1 is slow', refused: ['operand sort runs on cores'], advice: ['chunk_size 64 MiB: −38 % time'] } });
    changed();
    await tick();
    expect(cells().slice(0, 3)).toEqual([
      ['time', '2.00 s', '2.50 s', '+25 %'],
      ['peak of chunks', '1.0 MiB to 2.0 MiB', '1.0 MiB', 'within'],
      ['spilled', '0 B', '0 B', '–']
    ]);
    expect(texts('.jm-advice li')).toEqual(['chunk_size 64 MiB: −38 % time']);
    expect(texts('.jm-plan .jm-note')[0]).toMatch(/^The prediction adds up 3 stages.* No plan of all these stages takes less than 1.50 s\. Chosen for stage 3: .* Planned anew 2 times while it ran: worker-1 is slow\. operand sort runs on cores\.$/);
    expect(texts('.jm-time')[0]).toMatch(/about 3.0 s left$/);
  });
  test.each([
    ['failed', 'The job failed before it ran, so there is no graph.'],
    ['cancelled', 'The job was cancelled before it ran, so there is no graph.'],
    ['running', 'The graph is being built.']
  ])('without a graph the tab says why: %s', (state, text) => {
    shown = picture({ graph: null, snap: { ...shown.snap, state, live: state === 'running' } });
    mount(document.body, host());
    button('Graph').click();
    expect(texts('.jm-graph .jm-note')).toEqual([text]);
    button('Operands').click();
    expect(texts('.jm-operands .jm-note')).toEqual([text]);
  });
  test('every word that is no plain English has a tooltip', () => {
    shown = picture({ series: { ...picture().series, spilled: [0, 64] }, plan: { predicted: costs, measured: costs, lower_bound: 1, chosen: 'dfs', tried: [{ name: 'halves, blevel', ...costs, peak: 1 }], stage: 1, replans: 0, why: '', refused: [], advice: [] } });
    shown.lanes = { labels: [''], lanes: [{ worker: 0, begin: [0], end: [1], took: [[0, 0, 1, 0]], n: [1], label: [0], open: null }] };
    mount(document.body, host());
    document.querySelector('canvas')!.dispatchEvent(new KeyboardEvent('keydown', { key: 'End' }));
    const bare: string[] = [];
    for (const tab of document.querySelectorAll<HTMLButtonElement>('[role=tab]')) {
      tab.click();
      const words = document.querySelectorAll('.jm-panel:not([hidden]) :is(.jm-facts div, thead th:not(:has(abbr)), .jm-legend li, .jm-plan tbody th, abbr)');
      bare.push(...[...words].filter(node => !node.getAttribute('title')).map(node => `${tab.textContent}: ${node.textContent}`));
    }
    expect(bare).toEqual([]);
    expect(document.querySelector('.jm-plan [title*="halved again"]')!.textContent).toBe('halves, blevel');
  });
  test('leaves nothing behind', () => {
    mount(document.body, host())();
    expect(document.body.children.length).toBe(0);
  });
});

describe('the view of a short job', () => {
  const isLine = () => document.querySelector<HTMLElement>('.jm')!.dataset.line === 'true';
  const details = () => document.querySelector<HTMLButtonElement>('.jm-details')!;
  const begin = (snap: object) => {
    shown = picture({ snap: { ...picture().snap, job: `job-${Math.random()}`, ...snap } });
    return mount(document.body, { ...host(), line: true });
  };
  test('is a line until two seconds have passed after the start of the cluster, and when it has ended', async () => {
    begin({ elapsed: 3.4, started: 3, live: true });
    expect(isLine()).toBe(true);
    expect(details().getAttribute('aria-expanded')).toBe('false');
    shown = { ...shown, snap: { ...shown.snap, elapsed: 5.1 } };
    changed();
    await tick();
    expect(isLine()).toBe(false);
    shown = { ...shown, snap: { ...shown.snap, state: 'succeeded', live: false, n_started: 2, started: 3, elapsed: 5.3, peak: 172 * 2 ** 20, totals: { jobs: 1, spilled: 596 * 2 ** 20 } } };
    changed();
    await tick();
    expect(isLine()).toBe(true);
    expect(document.querySelector('.jm-time')!.textContent).toBe('5.3 s · 2 workers started in 3.0 s · peak 172 MiB · 596 MiB on disk');
  });
  test('stays open at the end where the user works in it', async () => {
    begin({ elapsed: 5, live: true });
    button('Graph').click();
    shown = { ...shown, snap: { ...shown.snap, state: 'succeeded', live: false } };
    changed();
    await tick();
    expect(isLine()).toBe(false);
  });
  test('of a cell whose time went into Python says so, and opens to its lines', async () => {
    begin({ job: '', n: 0, counts: Array(9).fill(0), state: 'succeeded', live: false, elapsed: 46, eta: null, parts: [] });
    shown = { ...shown, kernel: [0, 1.25, 43.75, 0] };
    changed();
    await tick();
    expect(isLine()).toBe(true);
    expect(document.querySelector('.jm-time')!.textContent).toBe('46 s · 45 s in Python, most in line 3');
    details().click();
    expect([...document.querySelectorAll<HTMLElement>('[role=tab]')].filter(tab => !tab.hidden).map(tab => tab.textContent)).toEqual(['Lines']);
    expect([...document.querySelectorAll('.jm-code tr')][3].textContent).toContain('44 s');
  });
  test('of Python without a job stays a line, which says the line that runs', async () => {
    begin({ job: '', n: 0, counts: Array(9).fill(0), line: 3, lines: 7, elapsed: 5, eta: null, parts: [] });
    expect(isLine()).toBe(true);
    expect(details().hidden).toBe(true);
    expect(document.querySelector('.jm-time')!.textContent).toBe('line 3 of 7 · 5.0 s');
    expect(document.querySelector<HTMLElement>('.jm-cancel')!.hidden).toBe(false);
    expect([...document.querySelectorAll('button')].find(one => one.textContent === 'To background')!.hidden).toBe(true);
    shown = { ...shown, snap: { ...shown.snap, state: 'succeeded', live: false } };
    changed();
    await tick();
    expect(document.querySelector('.jm-time')!.textContent).toBe('5.0 s');
  });
  test('names the Stop button where the kernel reads no click while Python runs', async () => {
    const part = { ...picture().snap.parts[0], state: 'running' };
    const see = async (deaf: boolean, parts: object[]) => {
      shown = picture({ snap: { ...picture().snap, parts } });
      const unmount = mount(document.body, { ...host(), line: true, deaf: () => deaf });
      await tick();
      const seen = [document.querySelector<HTMLElement>('.jm-cancel')!.hidden, document.querySelector('.jm-time')!.textContent!.endsWith(' · to cancel, use the Stop button')];
      unmount();
      return seen;
    };
    expect(await see(true, [])).toEqual([true, true]);
    expect(await see(true, [{ ...part, state: 'succeeded' }])).toEqual([true, true]);
    expect(await see(true, [{ ...part, state: 'succeeded' }, part])).toEqual([false, false]);
    expect(await see(false, [])).toEqual([false, false]);
  });
  test('opens by a click and stays so in the saved view', async () => {
    const unmount = begin({ elapsed: 0.4 });
    details().click();
    expect(isLine()).toBe(false);
    button('Graph').click();
    expect(texts('.jm-graph figcaption').length).toBe(2);
    unmount();
    mount(document.body, { ...host(), line: true });
    expect(isLine()).toBe(false);
  });
  test.each([
    ['full', 0.4, 'succeeded', false],
    ['line', 60, 'running', true],
    ['', 0.4, 'failed', true],
    ['', 0.4, 'succeeded', true]
  ])('begins as it was told: %s, %s s, %s', (view, elapsed, state, line) => {
    begin({ view, elapsed, state });
    expect(isLine()).toBe(line);
  });
  test('is full in the side bar', () => {
    shown = picture({ snap: { ...picture().snap, elapsed: 0.1 } });
    mount(document.body, host());
    expect(isLine()).toBe(false);
    expect(details().hidden).toBe(true);
  });
});

describe('hostile names', () => {
  const names = ['<img src=x onerror="window.hit=1">', '</script><script>window.hit=1</script>', 'javascript:window.hit=1', '"><svg onload=window.hit=1>', 'a\u0000b', '\u202egnp.exe', 'x'.repeat(100000)];
  test.each(names)('%.30s stays text', name => {
    const graph = shown.graph!;
    graph.stages.forEach(stage => Object.assign(stage, { name, text: name, file: name }));
    graph.before.labels = graph.after.labels = [name, name, name];
    shown.workers.forEach(worker => Object.assign(worker, { name, state: name }));
    Object.assign(shown.snap, { state: name, name, error: name, job: name });
    shown.snap.parts = [{ number: 0, job: name, name, line: 1, text: name, state: name, n: 1, elapsed: 0, spilled: 0 }, ...shown.snap.parts];
    shown.series.t = [0, name as unknown as number];
    const costs = { makespan: name, peak: [name, name], spilled: name, moved: name };
    const tried = [{ name, makespan: name, peak: name, spilled: name, moved: name }];
    shown.plan = { predicted: costs, measured: costs, lower_bound: name, chosen: name, tried, stage: name, replans: name, why: name, advice: [name] } as never;
    mount(document.body, host());
    for (const tab of document.querySelectorAll<HTMLButtonElement>('[role=tab]')) {
      tab.click();
    }
    expect(document.querySelectorAll('img, script, iframe, object, a, image, use, foreignObject').length).toBe(0);
    expect((window as unknown as { hit?: number }).hit).toBeUndefined();
    for (const node of document.querySelectorAll('*')) {
      expect([...node.attributes].filter(attribute => /^on|href|src/i.test(attribute.name))).toEqual([]);
    }
  });
});

describe('morph', () => {
  test('keeps what is the same, with its focus', () => {
    const list = (...items: string[]) => [h('ul', {}, ...items.map(item => h('li', {}, h('button', { 'data-item': item }, item))))];
    morph(document.body, list('a', 'b'));
    const second = document.querySelectorAll('button')[1];
    second.focus();
    morph(document.body, list('a', 'b', 'c'));
    expect(document.activeElement).toBe(second);
    morph(document.body, list('x'));
    expect(texts('button')).toEqual(['x']);
    expect(document.querySelector('button')!.dataset.item).toBe('x');
    morph(document.body, [h('p', { hidden: true }, 'text'), 'bare', null]);
    expect(document.body.innerHTML).toBe('<p hidden="">text</p>bare');
  });
});

const CSS_ID = (node: Element) => node.id;

describe('why nothing moves', () => {
  test('is told under the header until it moves', async () => {
    mount(document.body, host());
    const put = async (snap: Picture['snap']) => {
      shown = picture({ snap });
      changed();
      await tick();
    };
    const line = document.querySelector('.jm-why') as HTMLElement;
    expect(line.hidden).toBe(true);
    await put({ ...picture().snap, why: 'waits for memory <b>', calm: false });
    expect([line.hidden, line.textContent, line.dataset.calm]).toEqual([false, 'waits for memory <b>', 'false']);
    await put(picture().snap);
    expect(line.hidden).toBe(true);
  });
});
