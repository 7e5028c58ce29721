// Draws the differences of two runs: the first one, the largest ones, and a mark of each on the axis of time.
import { h } from './dom';

/** What jmars/reports/run_difference.py found. */
export interface Difference {
  notes: string[];
  first: Spot | null;
  tables: { title: string; heads: string[]; rows: { cells: string[]; at: number | null }[] }[];
}
interface Spot {
  text: string;
  at: number; // seconds since the submission
}

/** Draws the first difference, the list of the largest ones, and the marks into `ticks`; a click on a time calls `jump`. */
export function drawDifference(first: HTMLElement, list: HTMLElement, ticks: HTMLElement, found: Difference, seconds: number, jump: (at: number) => void): void {
  const mark = (at: number, kind: string) => h('i', { class: kind, style: `left:calc(8px + (100% - 16px) * ${Math.min(1, at / Math.max(seconds, 1e-9))})` });
  const go = (at: number | null) => {
    if (at === null) {
      return '';
    }
    const button = h('button', { type: 'button', class: 'jm-toggle' }, `${at.toFixed(3)} s`);
    button.addEventListener('click', () => jump(at));
    return button;
  };
  const spots = found.tables.flatMap(table => table.rows.map(row => row.at)).filter((at): at is number => at !== null);
  ticks.replaceChildren(...spots.map(at => mark(at, 'jm-other')), ...(found.first ? [mark(found.first.at, 'jm-first')] : []));
  const text = found.first ? found.first.text : found.notes.length ? 'not searched for' : 'none; all operands ran on the same workers in the same order';
  first.replaceChildren(h('b', {}, 'First difference: '), text, ' ', found.first ? go(found.first.at) : '');
  list.replaceChildren(
    h('b', {}, 'Largest differences'),
    ...found.notes.map(note => h('p', { class: 'jm-note' }, note)),
    h(
      'div',
      { class: 'jm-differences' },
      ...found.tables.map(table =>
        h(
          'table',
          { class: 'jm-t', 'aria-label': `${table.title}, A and B` },
          h('thead', {}, h('tr', {}, ...table.heads.map(head => h('th', { scope: 'col' }, head)))),
          h('tbody', {}, ...table.rows.map(row => h('tr', {}, ...row.cells.map((cell, i) => (i ? h('td', {}, ...cell.split(' · ').map((part, k) => h('span', {}, k ? ` · ${part}` : part))) : h('th', { scope: 'row' }, cell, ' ', go(row.at)))))))
        )
      )
    )
  );
}
