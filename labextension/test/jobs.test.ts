import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Host } from '../src/draw/host';
import { pieceAt } from '../src/draw/lanes';
import { mount } from '../src/draw/mount';
import { Picture } from '../src/model/view';
import { picture } from './pictures';

let shown: Picture;
let changed: () => void;

function host(): Host {
  return {
    get: name => shown[name],
    watch: call => {
      changed = call;
      return () => undefined;
    }
  };
}
const tick = () => new Promise(resolve => requestAnimationFrame(resolve));
const texts = (selector: string) => [...document.querySelectorAll(selector)].map(node => node.textContent);
const button = (name: string) => [...document.querySelectorAll('button')].find(node => node.textContent === name) as HTMLButtonElement;

beforeEach(() => {
  delete (globalThis as { [key: symbol]: unknown })[Symbol.for('jmars.opened')]; // choices of other tests in this process
  shown = picture();
  HTMLCanvasElement.prototype.getContext = (() => null) as never; // jsdom draws nothing
});
afterEach(() => {
  document.body.replaceChildren();
  vi.restoreAllMocks();
});

describe('a cell of several jobs', () => {
  test('jobs of one cell are listed from the second on', async () => {
    mount(document.body, host());
    expect(document.querySelector<HTMLElement>('.jm-parts')!.hidden).toBe(true);
    const part = shown.snap.parts[0];
    const first = { ...part, job: 'job-0', number: 59, line: 2, text: 'if x > 0:', state: 'succeeded', elapsed: 0.25, spilled: 2 ** 20 };
    const totals = { jobs: 60, spilled: 2 ** 21 };
    shown = picture({ snap: { ...shown.snap, totals, parts: [first, { ...part, number: 60 }] } });
    changed();
    await tick();
    expect(document.querySelector<HTMLElement>('.jm-parts')!.hidden).toBe(true); // the lines are of all jobs
    button('Graph').click();
    expect(texts('.jm-parts li')).toEqual(['59.line 2: if x > 0:succeeded, 5 operands, 0.25 s, spilled 1.0 MiB', '60.line 3: b.sum()running, 5 operands, 1.50 s']);
    expect(texts('.jm-parts .jm-note')).toEqual(['The last 2 of 60 jobs:']);
    expect(texts('.jm-time')).toEqual(['2 of 5 operands in 60 jobs · 1.5 s · about 3.0 s left of job 60 · 2.0 MiB on disk']);
  });
  test('a click on a job shows its graph, or says that it is not kept', async () => {
    mount(document.body, host());
    const part = shown.snap.parts[0];
    const older = picture().graph!;
    older.job = 'job-1a';
    older.stages = older.stages.map(stage => ({ ...stage, name: `older ${stage.name}` }));
    const kept = { job: 'job-1a', graph: older, operand_states: btoa('\x03\x03\x03\x03\x03'), operand_workers: '', operand_marks: '', operand_seconds: '', backends: [], stages: [], lanes: null, plan: null };
    const parts = [{ ...part, job: 'job-0' }, { ...part, job: 'job-1a', number: 2 }, { ...part, number: 3 }];
    shown = picture({ snap: { ...shown.snap, totals: { ...shown.snap.totals, jobs: 3 }, parts }, earlier: [kept] });
    changed();
    await tick();
    const note = document.querySelector('.jm-chosen') as HTMLElement;
    const click = (job: string) => (document.querySelector(`[data-job="${job}"]`) as HTMLElement).click();
    const names = () => texts('.jm-operands tbody th');
    button('Operands').click();
    click('job-1a');
    expect(note.textContent).toBe('Shown: job 2 of 3. Click the last job of the list for the newest.');
    expect(names()).toEqual(['older rand', 'older add', 'older sum']);
    expect(document.querySelector('[data-job="job-1a"]')!.getAttribute('aria-pressed')).toBe('true');
    click('job-0');
    expect(note.textContent).toMatch(/^The graph of job 1 of 3 is not kept/);
    expect(names()).toEqual([]);
    click('job-1');
    expect(note.hidden).toBe(true);
    expect(names()).toEqual(['rand', 'add', 'sum']);
  });
});

describe('lanes', () => {
  const lanes = {
    labels: ['', 'rand+add'],
    lanes: [
      { worker: 0, begin: [0.2, 0.8], end: [0.6, 1.4], took: [[0, 0, 0.4, 0], [0.1, 0.05, 0.5, 0.1]], n: [1, 3], label: [1, 0], open: null },
      { worker: 1, begin: [0.3], end: [0.9], took: [[0, 0, 0.6, 0]], n: [1], label: [1], open: { begin: 1.0, n: 2, label: 1 } }
    ]
  };
  test('each worker has one, with a path for each state that it was in', () => {
    const root = document.body;
    shown = picture({ lanes });
    mount(root, host());
    (root.querySelector('[role=tab][id$=workers]') as HTMLElement).click();
    expect(root.querySelectorAll('[data-lane]').length).toBe(2);
    expect([...root.querySelectorAll('[data-lane="0"] path.jm-lane')].map(path => path.getAttribute('class'))).toEqual(['jm-lane jm-t0', 'jm-lane jm-t1', 'jm-lane jm-t2', 'jm-lane jm-t3']);
    expect(root.querySelectorAll('[data-lane="1"] path.jm-lane').length).toBe(1);
    expect(root.querySelectorAll('[data-lane="0"] .jm-open').length).toBe(0);
    expect(root.querySelector('.jm-lanes')!.getAttribute('aria-label')).toContain('worker-1: calculating 0.60 s, 2 operands rand+add running since 1.0 s');
  });
  test('a running operand is a piece that grows until now', async () => {
    const wide = () => Number(document.querySelector('[data-lane="1"] .jm-open')!.getAttribute('width'));
    shown = picture({ lanes, snap: { ...picture().snap, elapsed: 2 } });
    mount(document.body, host());
    (document.querySelector('[role=tab][id$=workers]') as HTMLElement).click();
    expect(wide()).toBeCloseTo((640 - 82 - 14) / 2, 0);
    shown = picture({ lanes, snap: { ...picture().snap, elapsed: 10 } });
    changed();
    await tick();
    expect(wide()).toBeCloseTo((640 - 82 - 14) * 0.9, 0);
  });
  test('what is under the pointer is told', () => {
    const el = document.createElement('div');
    const { workers, series } = picture();
    const x = (t: number) => 82 + ((640 - 82 - 14) * t) / 1.4;
    expect(pieceAt(el, lanes, workers, null, series, 1.0, x(0.4), 10)).toBe('worker-0, 0.2 s to 0.6 s: rand+add (calculating 0.40 s)');
    expect(pieceAt(el, lanes, workers, null, series, 1.0, x(1.0), 10)).toContain('3 operands (waiting for memory 0.10 s, reloading inputs 50 ms, calculating 0.50 s, storing 0.10 s)');
    expect(pieceAt(el, lanes, workers, null, series, 1.0, x(1.3), 50)).toBe('');
    expect(pieceAt(el, lanes, workers, null, series, 1.0, x(0.4), 500)).toBe('');
    expect(pieceAt(el, lanes, workers, null, series, 1.4, x(1.2), 50)).toBe('worker-1, since 1.0 s: 2 operands rand+add, running for 0.40 s, one after the other');
  });
});
