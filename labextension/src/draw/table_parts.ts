// Parts of the tables: heads, cells of numbers, and bars that show bytes as a share.
import { bytes, count } from '../model/format';
import { meaning } from '../model/words';
import { Child, h } from './dom';

const WORDS = ['worker', 'host', 'state', 'operand', 'line', 'progress']; // columns of words are left-aligned
const ASIDE = ['pid', 'assigned']; // the first columns to go where there is little room
const SPARE = ['running', 'chunks made']; // the next columns to go: state and memory say nearly the same
export const EACH = 'each state'; // columns that the bar of progress replaces where there is little room
/** The class of a column, by its name. */
export const look = (name: string) =>
  WORDS.includes(name) ? 'jm-word' : ASIDE.includes(name) ? 'jm-aside' : SPARE.includes(name) ? 'jm-spare' : name === EACH ? 'jm-each' : null;
/** The head of a table; columns of words have tooltips. */
export const head = (...names: Child[]) =>
  h('thead', {}, h('tr', {}, ...names.map(name => h('th', { scope: 'col', class: look(typeof name === 'string' ? name : EACH), title: typeof name === 'string' ? meaning(name) : null }, name))));
/** A cell of a number. */
export const number = (value: number, column = '') => h('td', { class: [value ? '' : 'jm-0', look(column)].filter(Boolean).join(' ') || null }, count(value));

/** A bar that shows `value` bytes as a share of `most`. */
export function meter(value: number, most: number, label: string): HTMLElement {
  const share = most > 0 ? Math.min(1, value / most) : 0;
  return h(
    'span',
    {
      class: 'jm-meter',
      role: 'meter',
      'aria-label': label,
      'aria-valuemin': 0,
      'aria-valuemax': Math.max(1, Math.round(most)),
      'aria-valuenow': Math.round(Math.min(value, most)),
      'aria-valuetext': `${bytes(value)} of ${bytes(most)}`
    },
    h('i', { style: `width:${(100 * share).toFixed(1)}%` })
  );
}
