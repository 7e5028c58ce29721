import { describe, expect, test } from 'vitest';
import { bytes as size, count, plural, seconds, share } from '../src/model/format';
import { boxAt, fitsNamed, geometry, markAt, markBeside, neighbour } from '../src/model/geometry';
import { layered } from '../src/model/layout';
import { fromJson } from '../src/model/bytes';
import { boxes, marks, partners, PRUNED, sourcesOf, ranking, boxFacts } from '../src/model/picture';
import { done, sentence } from '../src/model/states';
import { bytes, large, picture } from './pictures';

describe('format', () => {
  test('sizes are short', () => {
    expect([0, 999, 1536, 2 ** 20, 700 * 2 ** 20, 1.5 * 2 ** 40].map(size)).toEqual(['0 B', '999 B', '1.5 KiB', '1.0 MiB', '700 MiB', '1.5 TiB']);
  });
  test('times and counts are short', () => {
    expect([0.04, 9.96, 59.6, 185, -1].map(seconds)).toEqual(['0.0 s', '10.0 s', '60 s', '3 min 5 s', '0.0 s']);
    expect(count(1234567)).toBe('1\u202f234\u202f567');
    expect([plural(1, 'edge'), plural(2, 'edge')]).toEqual(['1 edge', '2 edges']);
  });
  test('differences are short', () => {
    expect([112, 88, 100, 999, 1000, 4049, 2e8].map(value => share(value, 100))).toEqual(['+12 %', '−12 %', '±0 %', '+899 %', '×10', '×40', 'over ×1000']);
  });
  test('what is no number becomes one', () => {
    const hostile = '<img onerror=alert(1)>' as unknown as number;
    expect([size(hostile), seconds(hostile), count(hostile)]).toEqual(['0 B', '0.0 s', '0']);
  });
});

describe('layout', () => {
  test('an arrow leads to a later layer, and a source stands next to its user', () => {
    const { layer, depth } = layered({ n: 5, src: [0, 1, 2, 4], dst: [1, 2, 3, 3] });
    expect([...layer]).toEqual([0, 1, 2, 3, 2]);
    expect(depth).toBe(4);
  });
  test('a graph of stages may hold cycles and loops', () => {
    const { layer, order } = layered({ n: 4, src: [0, 1, 2, 2, 3], dst: [1, 2, 1, 2, 3] });
    expect([...layer]).toEqual([0, 1, 2, 0]);
    expect(order.flat().sort()).toEqual([0, 1, 2, 3]);
  });
  test('neighbours in a layer follow their inputs', () => {
    const { order } = layered({ n: 6, src: [0, 1, 2], dst: [5, 4, 3] });
    expect(order[1].map(box => 5 - box)).toEqual(order[0]);
  });
  test('no graph has no layers', () => {
    expect(layered({ n: 0, src: [], dst: [] }).depth).toBe(0);
    expect(geometry({ n: 0, src: [], dst: [], label: [], labels: [''], size: [] }, 300, false).height).toBeGreaterThan(0);
  });
  test('5000 boxes take well under a second', () => {
    const n = 5000;
    const src = Array.from({ length: n - 10 }, (_, i) => i);
    const begin = performance.now();
    layered({ n, src, dst: src.map(i => i + 10) });
    expect(performance.now() - begin).toBeLessThan(1000);
  });
});

describe('geometry', () => {
  const wide = (n: number) => ({ n, src: [], dst: [], label: Array(n).fill(0), labels: ['a'], size: Array(n).fill(1) });
  test.each([
    [5, 300],
    [5, 1000],
    [200, 300],
    [1500, 460]
  ])('%i boxes stay within %i pixels and do not overlap', (n, width) => {
    const place = geometry(wide(n), width, true);
    const cells = new Set<string>();
    for (let i = 0; i < n; i++) {
      expect(place.x[i]).toBeGreaterThanOrEqual(0);
      expect(place.x[i] + place.w[i]).toBeLessThanOrEqual(width + 0.01);
      expect(place.y[i] + place.h[i]).toBeLessThanOrEqual(place.height + 0.01);
      cells.add(`${place.x[i].toFixed(2)},${place.y[i].toFixed(2)}`);
    }
    expect(cells.size).toBe(n);
  });
  test('a layer of boxes with names stands in a row, else the boxes are marks', () => {
    expect([fitsNamed(wide(4), 470), fitsNamed(wide(5), 470), fitsNamed(wide(16), 470)]).toEqual([true, false, false]);
    const place = geometry(wide(16), 470, false);
    expect(new Set(place.x).size).toBe(1); // a column
  });
  test('a point finds the box under it, and near it where marks are small', () => {
    const named = geometry(wide(3), 400, true);
    expect(boxAt(named, named.x[1] + 5, named.y[1] + 5)).toBe(1);
    expect(boxAt(named, named.x[1] - 3, named.y[1] + 5)).toBe(-1);
    const marks = geometry(wide(200), 400, false);
    expect(boxAt(marks, marks.x[7] - 2, marks.y[7] + 1)).toBe(7);
  });
  test('arrow keys select boxes', () => {
    const graph = picture().graph!;
    const place = geometry(graph.after, 700, true);
    const first = neighbour(place, -1, 'ArrowDown');
    expect(first).toBe(place.order[0][0]);
    expect(neighbour(place, first, 'ArrowRight')).toBe(place.order[0][1]);
    expect(neighbour(place, first, 'ArrowDown')).toBe(4);
    expect(neighbour(place, 4, 'ArrowDown')).toBe(4);
    expect(neighbour(place, 4, 'Home')).toBe(first);
    expect(neighbour(place, first, 'End')).toBe(4);
    expect(neighbour(place, first, 'x')).toBe(-1);
  });
});

describe('the executable graph of an operand', () => {
  // 0 and 1 are read by 2, that and 1 by 3
  const layer = { n: 4, src: [0, 1, 2, 1], dst: [2, 2, 3, 3], label: [0, 0, 0, 0], labels: ['add'], size: [1, 1, 1, 1] };
  test('is what it fetches and itself', () => {
    expect([0, 2, 3].map(at => sourcesOf(layer, at))).toEqual([[], [0, 1], [2, 1]]);
    const shown = picture();
    const facts = new Map(boxFacts(shown, 'after', 4, size)!.facts);
    expect(facts.get('inputs')).toBe('rand+add #0 (64 B), rand+add #1 (64 B), rand+add #2 (64 B), rand+add #3 (64 B)');
    expect([facts.get('depth'), facts.get('read by'), facts.get('descendants and itself')]).toEqual(['1', '0', '1']);
  });
  test('stands in the graph as the first Mars saw it', () => {
    const numbers = [0, 1, 2, 3].map(at => ranking(layer, at).map(([, value]) => value));
    expect(numbers).toEqual([['0', '1', '3'], ['0', '2', '4'], ['1', '1', '2'], ['2', '0', '1']]);
  });
  test('ends on a graph with a cycle too', () => {
    expect(ranking({ ...layer, src: [0, 1, 2], dst: [1, 2, 0] }, 0).length).toBe(3);
  });
});

describe('picture', () => {
  test('a box before fusion has the state of what it was fused into', () => {
    const both = boxes(picture());
    expect([...both.after.states!]).toEqual([3, 3, 2, 1, 0]);
    expect([...both.before.states!]).toEqual([3, 3, 2, 1, 3, 3, 2, 1, 0]);
  });
  test('one that nobody needs is marked', () => {
    const shown = picture();
    shown.graph!.group[0] = -1;
    expect(boxes(shown).before.states![0]).toBe(PRUNED);
    expect(boxFacts(shown, 'before', 0, String)!.facts[0]).toEqual(['state', 'not needed, so not run']);
  });
  test('bytes of another graph are not drawn', () => {
    expect(boxes(picture({ operand_states: bytes(1, 2) })).after.states).toBeNull();
    expect(boxes(picture({ operand_states: null })).after.states).toBeNull();
    expect(boxes(picture({ graph: null })).after.states).toBeNull();
  });
  test('an aggregated graph has counts', () => {
    const shown = picture();
    shown.graph!.aggregated = true;
    const counts = new DataView(new ArrayBuffer(14 * 9 * 4));
    counts.setUint32(4 * (9 * 9 + 3), 70000, true);
    shown.operand_states = counts;
    const both = boxes(shown);
    expect(both.before.counts!.length).toBe(81);
    expect(both.after.counts![3]).toBe(70000);
    expect(boxFacts(shown, 'after', 0, String)!.facts).toContainEqual(['finished', '70\u202f000']);
  });
  test('the story of an operand tells its lines, worker and bytes', () => {
    const told = boxFacts(picture(), 'after', 2, size)!;
    expect(told.title).toBe('rand+add');
    expect(told.lines.map(line => line.line)).toEqual([1, 2]);
    expect(told.facts).toEqual([
      ['state', 'running'],
      ['worker', 'worker-0'],
      ['output', '64 B'],
      ['chunk', '(1, 0) of (2, 2)'],
      ['shape', '(4, 2)'],
      ['dtype', 'float64'],
      ['predicted time', '0.50 s'],
      ['back end', 'numexpr'],
      ['depth', '0'],
      ['read by', '1'],
      ['descendants and itself', '2'],
      ['inputs', 'none'],
      ['fused from', '2 operands']
    ]);
    expect(boxFacts(picture(), 'after', 99, size)).toBeNull();
  });
  test('an ended operand has its measured time, and so has what was fused into it', () => {
    expect(boxFacts(picture(), 'after', 0, size)!.facts).toContainEqual(['time', '0.75 s']);
    const fused = boxFacts(picture(), 'before', 5, size)!.facts;
    expect(fused).toContainEqual(['time of the fused operand', '1.00 s']);
    expect(fused).toContainEqual(['chunk', '(0, 1) of (2, 2)']);
    expect(new Map(fused).has('shape')).toBe(false);
    expect(boxFacts(large(), 'after', 0, size)!.facts).toContainEqual(['time of all', '13 s']);
  });
  test('what is unknown is left out', () => {
    const old = picture({ operand_seconds: null, backends: undefined });
    Object.assign(old.graph!, { seconds: undefined, kind: undefined, kinds: undefined, chunk: undefined, grid: undefined, grids: undefined });
    const known = new Map(boxFacts(old, 'after', 0, size)!.facts);
    expect(['time', 'predicted time', 'chunk', 'shape', 'dtype', 'back end'].filter(word => known.has(word))).toEqual([]);
    expect(boxFacts(picture(), 'after', 4, size)!.facts).toContainEqual(['chunk', 'the only one']);
  });
  test('a length that only the run can tell is unknown', () => {
    const shown = picture();
    shown.graph!.kinds[0].shape = [-1];
    expect(boxFacts(shown, 'after', 0, size)!.facts).toContainEqual(['shape', '(?,)']);
  });
  test('it tells where an operand was first to run', () => {
    const moved = boxFacts(picture({ operand_workers: bytes(2, 2, 1, 2, 0) }), 'after', 0, size)!;
    expect(moved.facts).toContainEqual(['initially assigned to', 'worker-0']);
  });
  test('partners lead both ways', () => {
    expect(partners(picture().graph!, 'after', 1)).toEqual([1, 5]);
    expect(partners(picture().graph!, 'before', 5)).toEqual([1]);
  });
  test('JSON holds bytes as base64', () => {
    const shown = fromJson({ operand_states: btoa('\x03\x02'), job_id: 'a' });
    expect([...new Uint8Array(shown.operand_states!.buffer)]).toEqual([3, 2]);
    expect(shown.job_id).toBe('a');
  });
});

test('counts are read as a sentence', () => {
  expect(sentence([5, 0, 2, 0, 1, 0, 0, 0, 0])).toBe('1 freed, 2 running, 5 unscheduled');
  expect(sentence([])).toBe('none');
  expect(done([5, 0, 2, 3, 1, 1, 0, 0, 0])).toBe(5);
});

describe('an open box', () => {
  const graph = { n: 3, src: [0, 1], dst: [2, 2], label: [0, 0, 0], labels: ['a'], size: [9, 9, 9] };
  test('has a line of its own and room for its marks; nothing overlaps', () => {
    const shut = geometry(graph, 300, true);
    const place = geometry(graph, 300, true, 1, 200);
    const { opened } = place;
    expect(shut.opened).toBe(null);
    expect(place.order).toEqual([[0], [1], [2]]);
    const last = opened!.top + Math.ceil(200 / opened!.columns) * opened!.pitch;
    expect(last).toBeLessThanOrEqual(place.y[1] + place.h[1] - 8); // the bar is below
    expect(opened!.left + opened!.columns * opened!.pitch).toBeLessThanOrEqual(place.x[1] + place.w[1]);
    expect(place.y[1] + place.h[1]).toBeLessThan(place.y[2]);
    expect(place.height).toBeGreaterThan(shut.height);
  });
  test('marks are hit and walked', () => {
    const opened = geometry(graph, 300, true, 1, 200).opened!;
    const middle = (at: number) => [opened.left + (at % opened.columns) * opened.pitch + 4, opened.top + Math.floor(at / opened.columns) * opened.pitch + 4] as const;
    expect([0, 1, opened.columns, 199].map(at => markAt(opened, ...middle(at)))).toEqual([0, 1, opened.columns, 199]);
    expect([middle(200), [opened.left - 1, opened.top], [opened.left, opened.top - 1]].map(([x, y]) => markAt(opened, x, y))).toEqual([-1, -1, -1]);
    expect(['ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowUp', 'End', 'x'].map(key => markBeside(opened, 0, key))).toEqual([1, opened.columns, 0, 0, 199, -1]);
  });
  test('its marks are those of its place', () => {
    expect(marks(large(), 'before', 1)).toEqual({ states: Uint8Array.of(4, 2, 8), workers: Uint8Array.of(1, 2, 1), n: 6 });
    expect(marks(large(), 'after', 0)!.states).toEqual(Uint8Array.of(0, 1));
    expect([marks(picture(), 'before', 0), marks(large(), 'before', 2), marks({ ...large(), operand_marks: bytes(1) }, 'before', 0)]).toEqual([null, null, null]);
    expect(fromJson({ operand_marks: btoa('\x03') }).operand_marks!.getUint8(0)).toBe(3);
  });
  test('a mark tells which operands it stands for', () => {
    const told = boxFacts(large(), 'before', 1, size, 1)!;
    expect(told.title).toBe('add: operands 3 to 4 of 6');
    expect(told.facts).toEqual([
      ['most notable state', 'running'],
      ['worker', 'worker-1']
    ]);
    expect(told.lines.map(line => line.text)).toEqual(['b = a + 1']);
    const single = boxFacts(large(), 'after', 0, size, 1)!;
    expect([single.title, ...single.facts.flat()]).toEqual(['rand+add: operand 2 of 2', 'state', 'ready', 'worker', 'none yet']);
  });
});
