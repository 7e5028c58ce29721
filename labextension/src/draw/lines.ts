// Draws the Lines tab: the code of the cell, and beside each line its seconds, bytes and states.
import { bytes, fine } from '../model/format';
import { LineCosts, lineCosts, lineNames } from '../model/lines';
import { CodeLine, Picture } from '../model/view';
import { meaning } from '../model/words';
import { smallBar } from './bar';
import { Child, h, morph } from './dom';

const COLUMNS = ['share', 'calculating', 'storing', 'waiting', 'reloading', 'bytes', 'state'];
const LOOKS: Record<string, string> = { storing: 'jm-aside', waiting: 'jm-aside', reloading: 'jm-aside', bytes: 'jm-spare', state: 'jm-word jm-spare' };

/** Draws the lines; `focus` are the rows that were clicked, `of` the rows of the selected operand. */
export function drawLines(el: HTMLElement, picture: Picture, focus: number[], of: number[]): void {
  const lines = lineCosts(picture);
  if (!lines.some(line => line.n)) {
    morph(el, [h('p', { class: 'jm-note' }, 'No line of the cell has made an operand yet.')]);
    return;
  }
  const split = lines.some(line => line.split);
  const note = `Seconds of all workers together, of all jobs of the cell${split ? '; ≈: operands of several lines were fused, and their seconds are split evenly among them' : ''}. A click on a line marks its operands in the graph and in the time line; a click on an operand marks its lines.`;
  morph(el, [
    h('p', { class: 'jm-note' }, note),
    h(
      'div',
      { class: 'jm-code', tabindex: 0, role: 'region', 'aria-label': 'lines of the cell' },
      h('table', { class: 'jm-t', 'aria-label': 'costs by line' }, headRow(), h('tbody', {}, ...lines.flatMap((line, i) => [...heading(line, lines[i - 1]), lineRow(line, focus.includes(line.row), of.includes(line.row))])))
    )
  ]);
}

function headRow(): HTMLElement {
  return h('thead', {}, h('tr', {}, h('th', { scope: 'col', class: 'jm-word', title: meaning('line') }, 'line'), ...COLUMNS.map(name => h('th', { scope: 'col', class: LOOKS[name], title: meaning(`line ${name}`) }, name))));
}

/** A row above the first line of another cell or file. */
function heading(line: LineCosts, before: LineCosts | undefined): HTMLElement[] {
  return line.where && line.where !== before?.where ? [h('tr', { class: 'jm-host' }, h('th', { scope: 'rowgroup', colspan: COLUMNS.length + 1 }, line.where))] : [];
}

function lineRow(line: LineCosts, pressed: boolean, marked: boolean): HTMLElement {
  const code: Child[] = [h('b', {}, line.line ? String(Number(line.line)) : '–'), h('code', {}, line.text || ' ')];
  const shown = { class: 'jm-codeline', title: line.text };
  const where = line.n ? h('button', { ...shown, type: 'button', 'data-row': line.row, 'aria-pressed': String(pressed) }, ...code) : h('span', shown, ...code);
  const about = { class: marked ? 'jm-of' : null, 'data-lit': pressed ? 'true' : null };
  if (!line.n) {
    return h('tr', about, h('th', { scope: 'row' }, where), h('td', { colspan: COLUMNS.length }));
  }
  const time = (seconds: number, name: string) => h('td', { class: [seconds > 0 ? '' : 'jm-0', LOOKS[name]].filter(Boolean).join(' ') || null }, seconds > 0 ? fine(seconds) : '–');
  const percent = Math.round(100 * line.share);
  return h(
    'tr',
    about,
    h('th', { scope: 'row' }, where),
    h(
      'td',
      { class: 'jm-cell jm-share' },
      h('span', {}, `${line.split ? '≈' : ''}${percent} %`),
      h('span', { class: 'jm-meter', 'aria-hidden': 'true' }, h('i', { style: `width:${(100 * line.share).toFixed(1)}%` }))
    ),
    time(line.took[2], 'calculating'),
    time(line.took[3], 'storing'),
    time(line.took[0], 'waiting'),
    time(line.took[1], 'reloading'),
    h('td', { class: LOOKS.bytes }, line.nbytes > 0 ? bytes(line.nbytes) : '–'),
    h('td', { class: `jm-cell ${LOOKS.state}` }, smallBar(line.counts, line.n))
  );
}

/** Draws which lines are marked, with a button that marks none; nothing without marked lines. */
export function drawFocus(el: HTMLElement, code: CodeLine[], focus: number[]): void {
  el.hidden = !focus.length;
  const first = code[focus[0]];
  morph(el, focus.length ? [h('span', {}, `Marked: operands of ${lineNames(code, focus)}`), first && focus.length === 1 ? h('code', {}, first.text.trim()) : null, h('button', { type: 'button', class: 'jm-toggle' }, 'Mark none')] : []);
}
