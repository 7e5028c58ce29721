// Draws the facts about the selected operand.
import { BoxFacts } from '../model/picture';
import { meaning } from '../model/words';
import { h, morph } from './dom';

const STORED = 'A chunk that was there before the job: of an array of the kernel, or of a tensor that was computed earlier. Nothing runs for it.';

export function drawInspector(el: HTMLElement, box: BoxFacts | null, opens = false): void {
  if (!box) {
    const hint = opens
      ? 'Click a box, or use the arrow keys, to see its lines and states; ▸, a double click or Enter shows its operands.'
      : 'Click an operand, or use the arrow keys, to see its line, state and worker.';
    morph(el, [h('p', { class: 'jm-note' }, hint)]);
    return;
  }
  morph(el, [
    h('h4', { title: box.title.startsWith('stored') ? STORED : null }, box.title),
    box.title.startsWith('stored') ? h('p', { class: 'jm-note' }, STORED) : null,
    h('dl', { class: 'jm-facts' }, ...box.facts.map(([word, value]) => h('div', { title: meaning(word) }, h('dt', {}, word), h('dd', { title: word.endsWith('state') ? meaning(value) : null }, value)))),
    ...box.lines.map(line =>
      h('p', { class: 'jm-source' }, h('span', {}, line.line ? `${line.name}, ` : line.name, line.line ? h('button', { type: 'button', class: 'jm-link', 'data-file': line.file, 'data-line': Number(line.line), title: 'Show the line and its costs' }, `line ${Number(line.line)}`) : null), line.text ? h('code', {}, line.text) : null)
    )
  ]);
}
