// Names of workers beside their lanes.
import { expect, test } from 'vitest';
import { drawLanes, pieceAt } from '../src/draw/lanes';
import type { Lanes, WorkerRow } from '../src/model/view';

const LETTER = 6.2;

test('long names move the lanes to the right, and the end of a name that is longer is seen', () => {
  const names = ['host-1/worker-0', `dask-${'x'.repeat(80)}:40001`];
  const lane = (worker: number) => ({ worker, begin: [0], end: [1], took: [[0, 0, 1, 0]], n: [1], label: [0] });
  const drawn = (workers: string[]) => {
    const el = document.createElement('div');
    drawLanes(el, { labels: ['add'], lanes: workers.map((_, k) => lane(k)) } as unknown as Lanes, workers.map(name => ({ name }) as WorkerRow), null, null, 1);
    return [...el.querySelectorAll('[data-lane] text')];
  };
  const [short] = drawn(['worker-0']);
  expect([short.textContent, short.getAttribute('x')]).toEqual(['worker-0', '74']);
  const [one] = drawn(names.slice(0, 1));
  expect([one.textContent, Number(one.getAttribute('x'))]).toEqual([names[0], names[0].length * LETTER]);
  const [, long] = drawn(names);
  expect(long.textContent).toMatch(/…x+:40001$/);
  expect(long.querySelector('title')!.textContent).toBe(names[1]);
  expect(long.lastChild!.textContent!.length * LETTER).toBeLessThan(0.4 * 640);
});

test('a wait for memory is drawn below the line, and named where one points at it', () => {
  const lanes = { labels: ['add'], lanes: [{ worker: 0, begin: [1, 8], end: [2, 10], took: [[0, 0, 1, 0], [5, 0.5, 2, 0]], n: [1, 1], label: [0, 0] }] } as unknown as Lanes;
  const workers = [{ name: 'worker-0' } as WorkerRow];
  const el = document.createElement('div');
  drawLanes(el, lanes, workers, null, null, 10);
  const [wait, busy] = ['.jm-lane.jm-t0', '.jm-lane.jm-t2'].map(name => el.querySelector(name)!.getAttribute('d')!);
  const pixels = (640 - 82 - 14) / 10; // of a second, behind names of 82 pixels
  expect(Number(wait.match(/^M([\d.]+)/)![1])).toBeCloseTo(82 + 2.5 * pixels, 0);
  expect(Number(wait.match(/h([\d.]+)/)![1])).toBeCloseTo(5 * pixels, 0);
  expect(Number(wait.match(/^M[\d.]+ (\d+)/)![1])).toBeGreaterThan(Number(busy.match(/^M[\d.]+ (\d+)/)![1]));
  const at = (second: number) => pieceAt(el, lanes, workers, null, null, 10, 82 + second * pixels, 10);
  expect(at(5)).toBe('worker-0, 8.0 s to 10 s: add (waiting for memory 5.00 s, reloading inputs 0.50 s, calculating 2.00 s)');
  expect(at(1.5)).toContain('1.0 s to 2.0 s');
  expect(at(2.3)).toBe('');
});
