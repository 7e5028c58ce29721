// What is known about the operand that was clicked.
import { Story } from '../model/picture';
import { h, morph } from './dom';

export function drawInspector(el: HTMLElement, told: Story | null): void {
  if (!told) {
    morph(el, [h('p', { class: 'jm-note' }, 'Click an operand, or walk with the arrow keys, to see its line, state and worker.')]);
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
