// Draws the bar of states and its legend.
import { count } from '../model/format';
import { BAR_ORDER, LETTERS, MEANINGS, sentence } from '../model/states';
import { STATE_NAMES } from '../model/view';
import { h, morph } from './dom';

const FIRST_UNUSUAL = 6; // cancelling, cancelled, fatal

/** Parts of a bar; the widths are shares of `n`. */
export function stack(counts: ArrayLike<number>, n: number): HTMLElement[] {
  return BAR_ORDER.map(state =>
    h('i', { class: `jm-s${state}`, style: `width:${n ? ((100 * counts[state]) / n).toFixed(3) : 0}%` })
  );
}

/** A small bar for a table's row. */
export function smallBar(counts: ArrayLike<number>, n: number): HTMLElement {
  return h('span', { class: 'jm-stack', role: 'img', 'aria-label': sentence(counts) }, ...stack(counts, n));
}

export function drawBar(el: HTMLElement, counts: number[], n: number): void {
  morph(el, stack(counts, n));
}

/** Draws the legend; of a live job it lists the usual states also without operands, so that the lines below do not jump. */
export function drawLegend(el: HTMLElement, counts: number[], live: boolean): void {
  morph(
    el,
    BAR_ORDER.filter(state => counts[state] || (live && state < FIRST_UNUSUAL)).map(state =>
      h('li', { class: counts[state] ? null : 'jm-0', title: `${STATE_NAMES[state]}: ${MEANINGS[state]}` }, h('i', { class: `jm-chip jm-s${state}`, 'aria-hidden': 'true' }, LETTERS[state]), `${STATE_NAMES[state]} `, h('b', {}, count(counts[state])))
    )
  );
}
