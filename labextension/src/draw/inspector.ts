// What is known about the operand that was clicked.
import { Story } from '../model/picture';
import { h, morph } from './dom';

export function drawInspector(el: HTMLElement, told: Story | null, opens = false): void {
  if (!told) {
    const hint = opens
      ? 'Click a box, or walk with the arrow keys, to see its lines and states; ▸, a double click or Enter opens it to its operands.'
      : 'Click an operand, or walk with the arrow keys, to see its line, state and worker.';
    morph(el, [h('p', { class: 'jm-note' }, hint)]);
    return;
  }
  morph(el, [
    h('h4', {}, told.title),
    h('dl', { class: 'jm-facts' }, ...told.facts.map(([word, value]) => h('div', {}, h('dt', {}, word), h('dd', {}, value)))),
    ...told.lines.map(line =>
      h('p', { class: 'jm-source' }, h('span', {}, line.line ? `${line.name}, line ${Number(line.line)}` : line.name), line.text ? h('code', {}, line.text) : null)
    )
  ]);
}
