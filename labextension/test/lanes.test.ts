// Names of workers beside their lanes.
import { expect, test } from 'vitest';
import { drawLanes } from '../src/draw/lanes';
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
