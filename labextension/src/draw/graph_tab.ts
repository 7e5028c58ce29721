// The Graph tab: the graphs before and after fusion, and the facts about the selected box.
import { asBytes } from '../model/bytes';
import { captions as captionTexts } from '../model/captions';
import { bytes } from '../model/format';
import { fitsNamed } from '../model/geometry';
import { litBoxes } from '../model/lines';
import { boxes, boxFacts, marks, partners, Side } from '../model/picture';
import { DrawnGraph, Picture } from '../model/view';
import { h, morph } from './dom';
import { drawGraph } from './graph';
import { drawInspector } from './inspector';
import { navigate } from './navigation';
import { withoutGraph } from './operands';
import { Shared, Tab } from './tab';

const SIDES: Side[] = ['before', 'after']; // of the canvases
const HOVER = ['state', 'most notable state', 'worker', 'time', 'predicted time', 'output']; // facts in the tooltip of a box
const LAYER = 'A box is a layer: the operands on chunks that come from one operand of the cell.';
const KIND = 'A box is a kind: operands of a layer that run the same program. Chunks at an edge have other lengths and so are another kind.';

export const graphTab: Tab = { name: 'graph', word: 'Graph', waits: true, make: makeGraph };

function makeGraph(panel: HTMLElement, view: Shared): (now: Picture) => void {
  const { choices } = view;
  const hues = h('div', { class: 'jm-hues', role: 'group', 'aria-label': 'colour of the boxes' });
  const captions = SIDES.map(() => h('figcaption', {}));
  const canvases = SIDES.map(() => h('canvas', { role: 'img', tabindex: 0, class: 'jm-canvas' }) as HTMLCanvasElement);
  const figures = SIDES.map((_, i) => h('figure', { class: 'jm-figure' }, captions[i], h('div', { class: 'jm-scroll' }, canvases[i])));
  const inspector = h('div', { class: 'jm-inspector', 'aria-live': 'polite' });
  panel.append(hues, h('div', { class: 'jm-two' }, figures[0], figures[1]), inspector);
  let drawnAs: { graph: DrawnGraph | null; width: number; named: boolean } = { graph: null, width: 0, named: false };

  function drawPicture(now: Picture): void {
    const graph = now.graph;
    const { selection, focus } = view;
    const { byWorker, worker, box: opening } = choices;
    const opened = graph && opening ? marks(now, opening.side as Side, opening.at) : null;
    hues.hidden = !graph || (graph.aggregated && !opened) || !now.workers?.length;
    figures.forEach(figure => (figure.hidden = !graph));
    if (!graph || !graph.before) {
      morph(inspector, [h('p', { class: 'jm-note' }, withoutGraph(now.snap))]);
      return;
    }
    drawHues(now, opened !== null);
    const colouring = boxes(now);
    const words = captionTexts(graph);
    const width = Math.floor(canvases[0].parentElement?.clientWidth || 0);
    if (drawnAs.graph !== graph || drawnAs.width !== width) {
      drawnAs = { graph, width, named: graph.aggregated || SIDES.every(side => fitsNamed(graph[side], width)) }; // both alike
    }
    const { named } = drawnAs;
    SIDES.forEach((side, i) => {
      captions[i].textContent = words[side];
      captions[i].title = graph.aggregated ? (side === 'before' ? LAYER : KIND) : '';
      canvases[i].setAttribute('aria-label', `${words[side]}. Arrow keys select boxes${graph.aggregated ? ', Enter opens a box to its operands and Escape closes it' : ''}; the Operands tab shows the same as a table.`);
      const at = selection?.side === side ? selection.at : -1;
      const marked = selection && selection.side !== side ? partners(graph, selection.side, selection.at) : [];
      const mine = opening?.side === side ? opening.at : -1;
      const opens = (box: number) => marks(now, side, box) !== null;
      drawGraph(
        canvases[i],
        { layer: graph[side], named, boxes: colouring[side], byWorker, worker, selected: at, mark: at < 0 ? -1 : selection!.mark, open: mine, opened: mine < 0 ? null : opened, opens, lit: litBoxes(graph, now.code || [], side, focus), marked },
        view.colours()
      );
    });
    drawInspector(inspector, selection && boxFacts(now, selection.side, selection.at, bytes, selection.mark), graph.aggregated && asBytes(now.operand_marks).length > 0);
  }

  function drawHues(now: Picture, opened: boolean): void {
    const { byWorker, worker } = choices;
    const many = opened || asBytes(now.operand_workers).length > 0;
    morph(hues, [
      h('button', { type: 'button', class: 'jm-toggle', 'data-hue': 'state', 'aria-pressed': String(!byWorker) }, 'by state'),
      h('button', { type: 'button', class: 'jm-toggle', 'data-hue': 'worker', 'aria-pressed': String(byWorker), disabled: !many }, 'by worker'),
      ...now.workers.slice(0, 32).map((row, i) =>
        h('button', { type: 'button', class: 'jm-toggle jm-who', 'data-worker': i, 'aria-pressed': String(worker === i), title: `Highlight the operands of ${row.name}` }, h('i', { class: `jm-dot jm-w${i % 8}`, 'aria-hidden': 'true' }), row.name)
      )
    ]);
  }

  hues.addEventListener('click', event => {
    const button = (event.target as Element).closest('button');
    if (button?.dataset.hue) {
      choices.byWorker = button.dataset.hue === 'worker';
    } else if (button?.dataset.worker) {
      choices.worker = choices.worker === Number(button.dataset.worker) ? -1 : Number(button.dataset.worker);
    }
    view.keep();
    view.draw();
  });
  SIDES.forEach((side, i) => {
    navigate(canvases[i], {
      spot: () => (view.selection?.side === side ? view.selection : null),
      select: spot => {
        view.selection = spot && { side, ...spot };
        view.draw();
      },
      open: at => {
        choices.box = at < 0 ? null : { side, at };
        if (view.selection?.side === side) {
          view.selection.mark = -1;
        }
        view.keep();
        view.draw();
      },
      opens: at => marks(view.shown(), side, at) !== null,
      name: spot => {
        const facts = boxFacts(view.shown(), side, spot.at, bytes, spot.mark);
        return [facts?.title ?? '', ...(facts?.facts ?? []).filter(([word]) => HOVER.includes(word)).map(([word, value]) => `${word}: ${value}`)].join('\n');
      }
    });
  });
  inspector.addEventListener('click', event => {
    const { file, line } = (event.target as Element).closest('button')?.dataset ?? {};
    const row = (view.shown().code || []).findIndex(one => one.file === file && one.line === Number(line));
    if (row >= 0) {
      view.focus = [row];
      view.open('lines');
    }
  });
  return drawPicture;
}
