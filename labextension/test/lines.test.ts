// @vitest-environment jsdom
// The Lines tab: costs beside the code, and lines and operands that mark each other.
import { afterEach, expect, test, vi } from 'vitest';
import { mount } from '../src/draw/mount';
import { lineCosts, lineNames, linesOf, litBoxes, stagesOf } from '../src/model/lines';
import { picture, costs, large } from './pictures';

afterEach(() => {
  vi.restoreAllMocks();
  document.body.replaceChildren();
  delete (globalThis as Record<symbol, unknown>)[Symbol.for('jmars.opened')];
});

const lanes = { labels: ['', 'rand+add', 'sum'], lines: [[0, 1], [2]], lanes: [{ worker: 0, begin: [0, 0.5], end: [0.5, 1], took: [[0, 0, 0.5, 0], [0, 0, 0.5, 0]], n: [1, 1], label: [1, 2], lines: [0, 1], open: null }] };
const host = (shown = picture({ lanes })) => ({ get: (name: string) => shown[name as keyof typeof shown] as never, watch: () => () => undefined });
const tab = (word: string) => [...document.querySelectorAll<HTMLButtonElement>('[role=tab]')].find(it => it.textContent!.startsWith(word))!;
const lit = () => [...document.querySelectorAll<HTMLElement>('tr[data-lit]')].map(row => row.querySelector('b')!.textContent);
const marked = () => [...document.querySelectorAll('.jm-code tr.jm-of b')].map(one => one.textContent);

test('costs are shares of all seconds of all lines, in the kernel and on workers', () => {
  const [first, second, third] = lineCosts(picture({ kernel: [1.5, 0, 0.25] }));
  expect([first.kernel, first.busy, first.share, first.split, first.n]).toEqual([1.5, 1.5, 0.6, true, 4]);
  expect([second.idle, second.share, second.nbytes, third.share]).toEqual([0.25, 0.35, 128, 0.05]);
  expect(lineCosts(picture({ line_costs: null })).map(line => line.n)).toEqual([0, 0, 0, 0]); // the frame that brings them is late
  expect(lineCosts({ ...picture(), code: undefined } as never)).toEqual([]); // saved by an earlier jmars
});

test('boxes belong to the lines that made their operands', () => {
  const { graph, code } = picture();
  expect(litBoxes(graph!, code, 'after', [])).toBeNull();
  expect(litBoxes(graph!, code, 'before', [1])).toEqual([false, false, false, false, true, true, true, true, false]);
  expect(litBoxes(graph!, code, 'after', [1])).toEqual([true, true, true, true, false]);
  expect(linesOf(graph!, code, 'after', 0)).toEqual([0, 1]);
  expect(litBoxes(large().graph!, code, 'after', [1])).toEqual([true]);
  expect(stagesOf(large().graph!, 'after', 0)).toEqual([0, 1]);
});

test('names of lines tell where a line stands that is not of the cell', () => {
  const code = [...picture().code, { file: 'x', where: 'Cell In[1]', line: 5, text: '' }];
  expect(lineNames(code, [2])).toBe('line 3');
  expect(lineNames(code, [0, 1, 4])).toBe('lines 1, 2 and 5 of Cell In[1]');
});

test('a click on a line marks its operands, another click marks none', () => {
  mount(document.body, host());
  tab('Lines').click();
  const rows = [...document.querySelectorAll('.jm-code tbody tr')];
  expect(rows.map(row => row.querySelector('code')!.textContent)).toEqual(picture().code.map(line => line.text));
  expect(rows[1].textContent).toContain('≈54 %');
  expect(rows[3].querySelector('button')).toBeNull(); // made no operand
  const button = () => document.querySelector<HTMLButtonElement>('.jm-code button[data-row="1"]')!;
  button().click();
  expect(lit()).toEqual(['2']);
  expect(button().getAttribute('aria-pressed')).toBe('true');
  expect(document.querySelector('.jm-focus')!.textContent).toContain('operands of line 2');
  const faint = () => [...document.querySelectorAll('.jm-workers .jm-lane.jm-faint')].length;
  tab('Workers').click();
  expect(faint()).toBe(1); // the piece of line 3
  tab('Lines').click();
  button().click();
  expect(lit()).toEqual([]);
  tab('Workers').click();
  expect(faint()).toBe(0);
});

test('a selected operand marks its lines, and its line in the inspector opens the tab', () => {
  vi.spyOn(Element.prototype, 'clientWidth', 'get').mockReturnValue(400);
  mount(document.body, host());
  tab('Graph').click();
  document.querySelectorAll('canvas')[1].dispatchEvent(new KeyboardEvent('keydown', { key: 'Home', bubbles: true }));
  const links = [...document.querySelectorAll<HTMLButtonElement>('.jm-inspector .jm-link')];
  expect(links.map(link => link.textContent)).toEqual(['line 1', 'line 2']);
  links[0].click();
  expect(tab('Lines').getAttribute('aria-selected')).toBe('true');
  expect(lit()).toEqual(['1']);
  expect(marked()).toEqual(['1', '2']);
});

test('text of a line is text', () => {
  mount(document.body, host(picture({ code: [{ file: '<cell>', where: '', line: 1, text: '<img src=x onerror=alert(1)>' }], line_costs: costs([0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]) })));
  tab('Lines').click();
  expect(document.querySelector('img')).toBeNull();
  expect(document.querySelector('.jm-code code')!.textContent).toContain('<img');
});
