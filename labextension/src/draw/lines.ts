// Draws the Lines tab: the code of the cell, and beside each line its seconds in the kernel and on workers, bytes and states.
import { bytes, fine } from '../model/format';
import { LineCosts, lineCosts, lineNames, linesOf } from '../model/lines';
import { CodeLine, Picture } from '../model/view';
import { meaning } from '../model/words';
import { smallBar } from './bar';
import { Child, h, morph } from './dom';
import { Shared, Tab } from './tab';

const COLUMNS = ['share', 'kernel', 'workers', 'waiting', 'bytes', 'state'];
const LOOKS: Record<string, string> = { waiting: 'jm-spare', bytes: 'jm-aside', state: 'jm-word jm-aside' };

export const linesTab: Tab = { name: 'lines', word: 'Lines', ofCell: true, make: makeLines };

function makeLines(panel: HTMLElement, view: Shared): (now: Picture) => void {
  panel.addEventListener('click', event => {
    const row = (event.target as Element).closest('button')?.dataset.row;
    if (row !== undefined) {
      view.setFocus([Number(row)]);
    }
  });
  return now => {
    const { focus, selection } = view;
    drawLines(panel, now, focus, now.graph && selection ? linesOf(now.graph, now.code || [], selection.side, selection.at) : []);
  };
}

/** Draws the lines; `focus` are the rows that were clicked, `of` the rows of the selected operand. */
function drawLines(el: HTMLElement, picture: Picture, focus: number[], of: number[]): void {
  const lines = lineCosts(picture);
  if (!lines.length) {
    morph(el, [h('p', { class: 'jm-note' }, 'The lines of the cell are not known.')]);
    return;
  }
  const split = lines.some(line => line.split);
  const known = (name: string) => (name === 'share' ? true : name === 'kernel' ? lines.some(line => line.kernel) : lines.some(line => line.n));
  const columns = COLUMNS.filter(known); // the side bar knows no seconds in the kernel, and without a job nothing ran on workers
  const note = !columns.includes('workers') ? 'Seconds of Python in the kernel; no job ran on workers.' : `Seconds${columns.includes('kernel') ? ' in the kernel, and' : ''} of all workers together${split ? '; ≈: split evenly among lines that were fused' : ''}. A click on a line marks its operands.`;
  morph(el, [
    h('p', { class: 'jm-note' }, note),
    h(
      'div',
      { class: 'jm-code', tabindex: 0, role: 'region', 'aria-label': 'lines of the cell' },
      h('table', { class: 'jm-t', 'aria-label': 'costs by line' }, headRow(columns), h('tbody', {}, ...lines.flatMap((line, i) => [...heading(line, lines[i - 1]), lineRow(line, columns, focus.includes(line.row), of.includes(line.row))])))
    )
  ]);
}

function headRow(columns: string[]): HTMLElement {
  return h('thead', {}, h('tr', {}, h('th', { scope: 'col', class: 'jm-word', title: meaning('line') }, 'line'), ...columns.map(name => h('th', { scope: 'col', class: LOOKS[name], title: meaning(`line ${name}`) }, name))));
}

/** A row above the first line of another cell or file. */
function heading(line: LineCosts, before: LineCosts | undefined): HTMLElement[] {
  return line.where && line.where !== before?.where ? [h('tr', { class: 'jm-host' }, h('th', { scope: 'rowgroup', colspan: COLUMNS.length + 1 }, line.where))] : [];
}

function lineRow(line: LineCosts, columns: string[], pressed: boolean, marked: boolean): HTMLElement {
  const code: Child[] = [h('b', {}, line.line ? String(Number(line.line)) : '–'), h('code', {}, line.text || ' ')];
  const shown = { class: 'jm-codeline', title: line.text };
  const where = line.n ? h('button', { ...shown, type: 'button', 'data-row': line.row, 'aria-pressed': String(pressed) }, ...code) : h('span', shown, ...code);
  const about = { class: marked ? 'jm-of' : null, 'data-lit': pressed ? 'true' : null };
  if (!line.n && !line.kernel) {
    return h('tr', about, h('th', { scope: 'row' }, where), h('td', { colspan: columns.length }));
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
    ...columns.slice(1).map(name => {
      const seconds = { kernel: line.kernel, workers: line.busy, waiting: line.idle }[name];
      if (name === 'workers' && line.idle > 0) {
        // where the column of waiting has no room its seconds stand here, so that the share is that of what is seen
        return h('td', {}, h('span', { class: 'jm-spare' }, fine(line.busy)), h('span', { class: 'jm-all' }, fine(line.busy + line.idle)));
      }
      return seconds !== undefined ? time(seconds, name) : name === 'bytes' ? h('td', { class: LOOKS.bytes }, line.nbytes > 0 ? bytes(line.nbytes) : '–') : h('td', { class: `jm-cell ${LOOKS.state}` }, line.n ? smallBar(line.counts, line.n) : null);
    })
  );
}

/** Draws which lines are marked, with a button that marks none; nothing without marked lines. */
export function drawFocus(el: HTMLElement, code: CodeLine[], focus: number[]): void {
  el.hidden = !focus.length;
  const first = code[focus[0]];
  morph(el, focus.length ? [h('span', {}, `Marked: operands of ${lineNames(code, focus)}`), first && focus.length === 1 ? h('code', {}, first.text.trim()) : null, h('button', { type: 'button', class: 'jm-toggle' }, 'Mark none')] : []);
}
