// Mounts the view of a cell's jobs: the same under the cell, in the side bar and in a saved notebook. The view draws the
// host's picture and passes clicks to the host; it changes only when the host's picture changes.
import { bytes } from '../model/format';
import { asBytes } from '../model/bytes';
import { Boxes, boxes, marks, partners, Side, boxFacts } from '../model/picture';
import { captions as captionTexts } from '../model/captions';
import { earlier } from '../model/earlier';
import { fitsNamed } from '../model/geometry';
import { ALL, Groups, grouped, Unfolded } from '../model/hosts';
import { asOutput, GONE, lastSeen } from '../model/last';
import { linesOf, litBoxes } from '../model/lines';
import { recall, remember } from '../model/remembered';
import { DrawnGraph, Picture, Snap } from '../model/view';
import { h, morph } from './dom';
import { drawGraph, palette } from './graph';
import { makeHead } from './head';
import { Host } from './host';
import { drawInspector } from './inspector';
import { chosenText, drawJobs } from './jobs';
import { drawLanes, watchLanes } from './lanes';
import { drawFocus, drawLines } from './lines';
import { drawMemory } from './memory';
import { drawPlan } from './plan';
import { drawOperands, drawWorkers, withoutGraph } from './tables';
import { Spot, navigate } from './navigation';
import { watchTheme } from './theme';

const TABS = [
  ['lines', 'Lines', ''],
  ['graph', 'Graph', ''],
  ['workers', 'Workers', ''],
  ['operands', 'Operands', ''],
  ['memory', 'Memory', ' & spill'], // the second word only if there is room
  ['plan', 'Plan', '']
] as const;
type Tab = (typeof TABS)[number][0];
const OF_CELL: Tab[] = ['lines', 'memory']; // tabs about all jobs of the cell; the others show one job
const SIDES: Side[] = ['before', 'after']; // of the canvases
const LAST = 'jmars:last'; // event with the last picture as the data of an output
const KERNEL_REPLACES = 3000; // ms after the end in which the kernel replaces the view by a saved picture
const SHORT = 2; // seconds of jobs before the view of a running cell opens
const HOVER = ['state', 'most notable state', 'worker', 'time', 'predicted time', 'output']; // facts in the tooltip of a box
const LAYER = 'A box is a layer: the operands on chunks that come from one operand of the cell.';
const KIND = 'A box is a kind: operands of a layer that run the same program. Chunks at an edge have other lengths and so are another kind.';
let mounted = 0;

/** A setting of the page, written by JupyterLab's settings (lab/settings.ts), if it is one of `words`. */
function preferred(name: string, words: readonly string[]): string | undefined {
  const word = document.body.dataset[name];
  return word && words.includes(word) ? word : undefined;
}

/** Draws the view into `el`; returns a function that removes it. */
export function mount(el: HTMLElement, host: Host): () => void {
  const id = `jm${++mounted}`;
  const details = h('button', { type: 'button', class: 'jm-details', 'aria-label': 'details', hidden: true }) as HTMLButtonElement;
  const head = makeHead(host, details, later);
  const jobs = h('div', { class: 'jm-parts', hidden: true });
  const chosenNote = h('p', { class: 'jm-note jm-chosen', role: 'status', hidden: true });
  const tabs = TABS.map(([name, word, more]) =>
    h('button', { type: 'button', role: 'tab', id: `${id}-${name}`, 'aria-controls': `${id}-${name}-panel`, 'aria-selected': 'false', tabindex: -1 }, word, more && h('span', { class: 'jm-wide' }, more))
  );
  const panels = Object.fromEntries(
    TABS.map(([name]) => [name, h('div', { role: 'tabpanel', id: `${id}-${name}-panel`, 'aria-labelledby': `${id}-${name}`, class: `jm-panel jm-${name}`, tabindex: 0 })])
  ) as Record<Tab, HTMLElement>;
  const tablist = h('div', { role: 'tablist', 'aria-label': 'parts of the view', class: 'jm-tabs' }, ...tabs);
  const hues = h('div', { class: 'jm-hues', role: 'group', 'aria-label': 'colour of the boxes' });
  const captions = SIDES.map(() => h('figcaption', {}));
  const canvases = SIDES.map(() => h('canvas', { role: 'img', tabindex: 0, class: 'jm-canvas' }) as HTMLCanvasElement);
  const figures = SIDES.map((_, i) => h('figure', { class: 'jm-figure' }, captions[i], h('div', { class: 'jm-scroll' }, canvases[i])));
  const inspector = h('div', { class: 'jm-inspector', 'aria-live': 'polite' });
  const table = h('div', { class: 'jm-table' });
  const lanes = h('div', { class: 'jm-timeline' });
  panels.workers.append(table, lanes);
  const focusNote = h('p', { class: 'jm-note jm-focus', role: 'status', hidden: true });
  panels.graph.append(hues, h('div', { class: 'jm-two' }, figures[0], figures[1]), inspector);
  const root = h(
    'section',
    { class: 'jm', 'aria-label': 'jmars job' },
    ...head.nodes,
    jobs,
    chosenNote,
    tablist,
    focusNote,
    ...Object.values(panels)
  );
  el.append(root);

  const keyOf = (snap: Snap | null | undefined) => (snap?.job ? `${snap.job} ${snap.name} ${host.get('workers')?.[0]?.pid ?? ''}` : ''); // other clusters have other processes
  let key = keyOf(host.get('snap')); // key of the shown job
  const before = key ? recall(key) : undefined; // choices in the view that this view replaces
  let tab = (host.tab ?? before?.tab ?? preferred('jmarsTab', TABS.map(([name]) => name)) ?? 'lines') as Tab;
  let byWorker = before?.byWorker ?? false;
  let worker = before?.worker ?? -1;
  let line = before?.line; // chosen by a click
  let unfolded: Unfolded = before?.unfolded ?? {};
  let selection: (Spot & { side: Side }) | null = null;
  let opening = before?.box ?? null; // the open box
  let drawn: string | undefined; // job and stage of the drawn graph
  let drawnAs: { graph: DrawnGraph | null; width: number; named: boolean } = { graph: null, width: 0, named: false };
  let theme = 0;
  let colours = palette(root, theme);
  let stale = !root.isConnected; // whether colours are to be read again: anywidget draws into an element that is not in the page yet
  let chosen = ''; // an earlier job of the cell whose graph is shown
  let focus: number[] = []; // rows of the lines whose operands are marked
  let bare = false; // no job has run: the view has only the lines
  let waiting = false;
  let gone = false;

  let ending = 0; // timer
  const picture = (): Picture => {
    const now = Object.fromEntries(PICTURE.map(name => [name, host.get(name) ?? null])) as unknown as Picture;
    return now.snap && host.gone?.() ? { ...now, snap: lastSeen(now.snap) } : now;
  };
  /** The picture of the job whose graph is drawn. */
  const shown = () => earlier(picture(), chosen)?.picture ?? picture();
  const groupsOf = (now: Picture): Groups | null => grouped(now.hosts || [], now.workers || [], unfolded);
  function end(snap: Snap): void {
    const last = () => root.dispatchEvent(new CustomEvent(LAST, { bubbles: true, detail: asOutput(picture()) }));
    ending = window.setTimeout(last, snap.state === GONE ? 0 : KERNEL_REPLACES);
  }

  function draw(): void {
    waiting = false;
    if (gone) {
      return;
    }
    if (stale && root.clientWidth) {
      stale = false; // not of a hidden view: once it is shown its size changes, and it is drawn
      colours = palette(root, ++theme);
    }
    const now = picture();
    if (key !== keyOf(now.snap)) {
      key = keyOf(now.snap); // the next job of the cell
      focus = host.line ? focus : []; // the side bar goes on to the lines of another cell
      keep();
    }
    head.draw(now);
    root.dataset.state = now.snap?.state ?? '';
    root.dataset.live = String(Boolean(host.line && now.snap?.live));
    drawJobs(jobs, now.snap, chosen || now.snap?.job || '');
    jobs.hidden ||= OF_CELL.includes(tab);
    const short = isLine(now.snap);
    root.dataset.line = String(short);
    if (bare !== Boolean(host.line && !now.snap?.job)) {
      bare = !bare;
      mark();
    }
    details.hidden = !host.line || !(now.snap?.job || now.kernel?.length);
    details.setAttribute('aria-expanded', String(!short));
    details.title = short ? 'Show lines, graph, workers, memory and plan' : 'Show only this line';
    if (!short) {
      drawTab(now);
    }
    host.drawn?.(document.hidden);
    if (host.gone && now.snap?.counts && !now.snap.live && !ending) {
      end(now.snap);
    }
  }
  function later(): void {
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(draw);
    }
  }

  /** Whether only the header is shown: as was chosen, or while the cell is short. */
  function isLine(snap: Snap | null): boolean {
    if (!host.line) {
      return false;
    }
    if (!snap?.job) {
      return line ?? true;
    }
    const isBrief = !snap.live || snap.elapsed - (snap.started ?? 0) < SHORT;
    const wanted = snap.view || preferred('jmarsView', ['line', 'full']);
    return line ?? (wanted === 'line' || (wanted !== 'full' && isBrief));
  }

  function drawTab(newest: Picture): void {
    const older = earlier(newest, chosen);
    chosenNote.hidden = !older || OF_CELL.includes(tab);
    chosenNote.textContent = older ? chosenText(newest, older) : '';
    const now = older ? older.picture ?? { ...newest, graph: null, lanes: null, plan: null, snap: { ...newest.snap, state: '', live: false } } : newest;
    drawFocus(focusNote, now.code || [], focus);
    if (host.until === undefined && !older && !now.graph && now.snap?.live && drawn && ['graph', 'operands'].includes(tab)) {
      return; // the next job of the cell is being prepared: the last graph stays until then, so that the page does not jump
    }
    const key = now.graph ? `${now.graph.job} ${now.graph.stage_number}` : undefined;
    if (key !== drawn) {
      opening = drawn === undefined ? opening : null;
      drawn = key;
      selection = null; // the number means another box now
    }
    if (bare || tab === 'lines') {
      drawLines(panels.lines, now, focus, now.graph && selection ? linesOf(now.graph, now.code || [], selection.side, selection.at) : []);
    } else if (tab === 'workers') {
      const groups = groupsOf(now);
      drawWorkers(table, now.workers || [], groups, now.series?.limit || 0, now.series?.engine || '');
      drawLanes(lanes, now.lanes, now.workers || [], groups, now.series, now.snap?.elapsed || 0, focus, host.until);
    } else if (tab === 'operands') {
      drawOperands(panels.operands, now.graph, now.stages || [], now.snap);
    } else if (tab === 'memory') {
      drawMemory(panels.memory, now.series, groupsOf(now), Boolean(newest.snap?.live), host.until ?? 0);
    } else if (tab === 'plan') {
      drawPlan(panels.plan, now.plan);
    } else {
      drawGraphs(now);
    }
  }

  function drawGraphs(now: Picture): void {
    const graph = now.graph;
    const opened = graph && opening ? marks(now, opening.side as Side, opening.at) : null;
    hues.hidden = !graph || (graph.aggregated && !opened) || !now.workers?.length;
    figures.forEach(figure => (figure.hidden = !graph));
    if (!graph || !graph.before) {
      morph(inspector, [h('p', { class: 'jm-note' }, withoutGraph(now.snap))]);
      return;
    }
    drawHues(now, opened !== null);
    const colouring: Record<Side, Boxes> = boxes(now);
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
        colours
      );
    });
    drawInspector(inspector, selection && boxFacts(now, selection.side, selection.at, bytes, selection.mark), graph.aggregated && asBytes(now.operand_marks).length > 0);
  }

  function drawHues(now: Picture, opened: boolean): void {
    const many = opened || asBytes(now.operand_workers).length > 0;
    morph(hues, [
      h('button', { type: 'button', class: 'jm-toggle', 'data-hue': 'state', 'aria-pressed': String(!byWorker) }, 'by state'),
      h('button', { type: 'button', class: 'jm-toggle', 'data-hue': 'worker', 'aria-pressed': String(byWorker), disabled: !many }, 'by worker'),
      ...now.workers.slice(0, 32).map((row, i) =>
        h('button', { type: 'button', class: 'jm-toggle jm-who', 'data-worker': i, 'aria-pressed': String(worker === i), title: `Highlight the operands of ${row.name}` }, h('i', { class: `jm-dot jm-w${i % 8}`, 'aria-hidden': 'true' }), row.name)
      )
    ]);
  }

  function keep(): void {
    if (key) {
      remember(key, { tab, byWorker, worker, line, unfolded, box: opening });
    }
  }
  function mark(): void {
    const open = bare ? 'lines' : tab;
    TABS.forEach(([name], i) => {
      tabs[i].hidden = bare && name !== open;
      tabs[i].setAttribute('aria-selected', String(name === open));
      tabs[i].tabIndex = name === open ? 0 : -1;
      panels[name].hidden = name !== open;
    });
  }
  /** Marks the operands of lines; of lines that are marked already: marks none. */
  function setFocus(rows: number[]): void {
    focus = rows.join() === focus.join() ? [] : rows;
    draw();
  }
  function open(name: Tab): void {
    tab = host.tab = name;
    keep();
    mark();
    draw();
  }
  /** Keeps open what the user works in. */
  function stay(): void {
    if (host.line && line === undefined) {
      line = false;
      keep();
    }
  }

  [tablist, jobs, hues, ...Object.values(panels)].forEach(el => ['click', 'keydown'].forEach(kind => el.addEventListener(kind, stay)));
  tabs.forEach((button, i) => button.addEventListener('click', () => open(TABS[i][0])));
  tablist.addEventListener('keydown', event => {
    const at = tabs.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (at >= 0 && to !== undefined) {
      event.preventDefault();
      const next = tabs[(to + tabs.length) % tabs.length];
      next.focus();
      next.click();
    }
  });
  hues.addEventListener('click', event => {
    const button = (event.target as Element).closest('button');
    if (button?.dataset.hue) {
      byWorker = button.dataset.hue === 'worker';
    } else if (button?.dataset.worker) {
      worker = worker === Number(button.dataset.worker) ? -1 : Number(button.dataset.worker);
    }
    keep();
    draw();
  });
  SIDES.forEach((side, i) => {
    navigate(canvases[i], {
      spot: () => (selection?.side === side ? selection : null),
      select: spot => {
        selection = spot && { side, ...spot };
        draw();
      },
      open: at => {
        opening = at < 0 ? null : { side, at };
        if (selection?.side === side) {
          selection.mark = -1;
        }
        keep();
        draw();
      },
      opens: at => marks(shown(), side, at) !== null,
      name: spot => {
        const facts = boxFacts(shown(), side, spot.at, bytes, spot.mark);
        return [facts?.title ?? '', ...(facts?.facts ?? []).filter(([word]) => HOVER.includes(word)).map(([word, value]) => `${word}: ${value}`)].join('\n');
      }
    });
  });
  jobs.addEventListener('click', event => {
    const job = (event.target as Element).closest('button')?.dataset.job;
    if (job) {
      chosen = job === host.get('snap')?.job ? '' : job;
      draw();
    }
  });
  details.addEventListener('click', () => {
    line = !isLine(host.get('snap') ?? null);
    keep();
    draw();
  });
  [panels.workers, panels.memory].forEach(panel =>
    panel.addEventListener('click', event => {
      const name = (event.target as Element).closest<HTMLElement | SVGElement>('[data-host]')?.dataset.host;
      if (name !== undefined) {
        const open = name === ALL ? unfolded[ALL] : groupsOf(shown())?.listed.find(({ host }) => host.name === name)?.open;
        unfolded = { ...unfolded, [name]: !open };
        keep();
        draw();
      }
    })
  );
  watchLanes(
    lanes,
    () => {
      const now = shown();
      return { lanes: now.lanes, workers: now.workers || [], groups: groupsOf(now), series: now.series, elapsed: now.snap?.elapsed || 0, until: host.until };
    },
    setFocus
  );
  panels.lines.addEventListener('click', event => {
    const row = (event.target as Element).closest('button')?.dataset.row;
    if (row !== undefined) {
      setFocus([Number(row)]);
    }
  });
  focusNote.addEventListener('click', event => {
    if ((event.target as Element).closest('button')) {
      setFocus([]);
    }
  });
  inspector.addEventListener('click', event => {
    const { file, line } = (event.target as Element).closest('button')?.dataset ?? {};
    const row = (shown().code || []).findIndex(one => one.file === file && one.line === Number(line));
    if (row >= 0) {
      focus = [row];
      open('lines');
    }
  });

  const unwatchTheme = watchTheme(() => {
    stale = true;
    later();
  });
  const sizes = typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(later);
  sizes?.observe(root);
  const unwatch = host.watch(later);
  const seen = () => host.drawn?.(document.hidden);
  document.addEventListener('visibilitychange', seen);
  mark();
  draw();
  return () => {
    gone = true;
    window.clearTimeout(ending);
    unwatch();
    unwatchTheme();
    sizes?.disconnect();
    document.removeEventListener('visibilitychange', seen);
    root.remove();
  };
}

const PICTURE: (keyof Picture)[] = ['job_id', 'graph', 'snap', 'operand_states', 'operand_workers', 'operand_marks', 'operand_seconds', 'backends', 'stages', 'code', 'line_costs', 'kernel', 'workers', 'hosts', 'series', 'lanes', 'plan', 'earlier'];
