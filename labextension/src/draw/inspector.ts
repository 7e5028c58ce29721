// Draws the facts about the selected operand.
import { BoxFacts } from '../model/picture';
import { h, morph } from './dom';

export function drawInspector(el: HTMLElement, box: BoxFacts | null, opens = false): void {
  if (!box) {
    const hint = opens
      ? 'Click a box, or use the arrow keys, to see its lines and states; ▸, a double click or Enter shows its operands.'
      : 'Click an operand, or use the arrow keys, to see its line, state and worker.';
    morph(el, [h('p', { class: 'jm-note' }, hint)]);
    return;
  }
  morph(el, [
    h('h4', {}, box.title),
    h('dl', { class: 'jm-facts' }, ...box.facts.map(([word, value]) => h('div', {}, h('dt', {}, word), h('dd', {}, value)))),
    ...box.lines.map(line =>
      h('p', { class: 'jm-source' }, h('span', {}, line.line ? `${line.name}, line ${Number(line.line)}` : line.name), line.text ? h('code', {}, line.text) : null)
    )
  ]);
}
