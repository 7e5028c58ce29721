// Mounts the view of a cell's jobs: the same under the cell, in the side bar and in a saved notebook. The view draws the
// host's picture and passes clicks to the host; it changes only when the host's picture changes.
import { earlier } from '../model/earlier';
import { Groups, grouped } from '../model/hosts';
import { asOutput, GONE, lastSeen } from '../model/last';
import { recall, remember, ViewChoices } from '../model/remembered';
import { Picture, Snap, TRAITS } from '../model/view';
import { h } from './dom';
import { palette } from './graph';
import { makeHead } from './head';
import { Host } from './host';
import { chosenText, drawJobs } from './jobs';
import { drawFocus } from './lines';
import { Shared } from './tab';
import { TABS } from './tabs';
import { watchTheme } from './theme';

const NAMES = TABS.map(({ name }) => name);
const LAST = 'jmars:last'; // event with the last picture as the data of an output
const KERNEL_REPLACES = 3000; // ms after the end in which the kernel replaces the view by a saved picture
const SHORT = 2; // seconds of jobs before the view of a running cell opens
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
  const tabs = TABS.map(({ name, word, more }) =>
    h('button', { type: 'button', role: 'tab', id: `${id}-${name}`, 'aria-controls': `${id}-${name}-panel`, 'aria-selected': 'false', tabindex: -1 }, word, more && h('span', { class: 'jm-wide' }, more))
  );
  const panels = TABS.map(({ name }) => h('div', { role: 'tabpanel', id: `${id}-${name}-panel`, 'aria-labelledby': `${id}-${name}`, class: `jm-panel jm-${name}`, tabindex: 0 }));
  const tablist = h('div', { role: 'tablist', 'aria-label': 'parts of the view', class: 'jm-tabs' }, ...tabs);
  const focusNote = h('p', { class: 'jm-note jm-focus', role: 'status', hidden: true });
  const root = h(
    'section',
    { class: 'jm', 'aria-label': 'jmars job' },
    ...head.nodes,
    jobs,
    chosenNote,
    tablist,
    focusNote,
    ...panels
  );
  el.append(root);

  const keyOf = (snap: Snap | null | undefined) => (snap?.job ? `${snap.job} ${snap.name} ${host.get('workers')?.[0]?.pid ?? ''}` : ''); // other clusters have other processes
  let key = keyOf(host.get('snap')); // key of the shown job
  const before = key ? recall(key) : undefined; // choices in the view that this view replaces
  const choices: ViewChoices = before ? { ...before } : { tab: '', byWorker: false, worker: -1, box: null };
  choices.tab = [host.tab, before?.tab, preferred('jmarsTab', NAMES)].find(name => name && NAMES.includes(name)) ?? 'lines';
  let drawn: string | undefined; // job and stage of the drawn graph
  let theme = 0;
  let colours = palette(root, theme);
  let stale = !root.isConnected; // whether colours are to be read again: anywidget draws into an element that is not in the page yet
  let chosen = ''; // an earlier job of the cell whose graph is shown
  let bare = false; // no job has run: the view has only the lines
  let waiting = false;
  let gone = false;

  let ending = 0; // timer
  const picture = (): Picture => {
    const now = Object.fromEntries(TRAITS.map(name => [name, host.get(name) ?? null])) as unknown as Picture;
    return now.snap && host.gone?.() ? { ...now, snap: lastSeen(now.snap) } : now;
  };
  /** The picture of the job whose graph is drawn. */
  const shown = () => earlier(picture(), chosen)?.picture ?? picture();
  const view: Shared = {
    host,
    choices,
    focus: [],
    selection: null,
    colours: () => colours,
    shown,
    groups: (now): Groups | null => grouped(now.hosts || [], now.workers || [], choices.unfolded ?? {}),
    draw,
    keep,
    setFocus,
    open
  };
  const draws = TABS.map((tab, i) => tab.make(panels[i], view));
  const opened = () => TABS[NAMES.indexOf(choices.tab)];

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
      view.focus = host.line ? view.focus : []; // the side bar goes on to the lines of another cell
      keep();
    }
    head.draw(now);
    root.dataset.state = now.snap?.state ?? '';
    root.dataset.live = String(Boolean(host.line && now.snap?.live));
    drawJobs(jobs, now.snap, chosen || now.snap?.job || '');
    jobs.hidden ||= Boolean(opened().ofCell);
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
      return choices.line ?? true;
    }
    const isBrief = !snap.live || snap.elapsed - (snap.started ?? 0) < SHORT;
    const wanted = snap.view || preferred('jmarsView', ['line', 'full']);
    return choices.line ?? (wanted === 'line' || (wanted !== 'full' && isBrief));
  }

  function drawTab(newest: Picture): void {
    const older = earlier(newest, chosen);
    chosenNote.hidden = !older || Boolean(opened().ofCell);
    chosenNote.textContent = older ? chosenText(newest, older) : '';
    const now = older ? older.picture ?? { ...newest, graph: null, lanes: null, plan: null, snap: { ...newest.snap, state: '', live: false } } : newest;
    drawFocus(focusNote, now.code || [], view.focus);
    if (host.until === undefined && !older && !now.graph && now.snap?.live && drawn && opened().waits) {
      return; // the next job of the cell is being prepared: the last graph stays until then, so that the page does not jump
    }
    const key = now.graph ? `${now.graph.job} ${now.graph.stage_number}` : undefined;
    if (key !== drawn) {
      choices.box = drawn === undefined ? choices.box : null;
      drawn = key;
      view.selection = null; // the number means another box now
    }
    draws[NAMES.indexOf(bare ? 'lines' : choices.tab)](now, Boolean(newest.snap?.live));
  }

  function keep(): void {
    if (key) {
      remember(key, { ...choices });
    }
  }
  function mark(): void {
    const open = bare ? 'lines' : choices.tab;
    NAMES.forEach((name, i) => {
      tabs[i].hidden = bare && name !== open;
      tabs[i].setAttribute('aria-selected', String(name === open));
      tabs[i].tabIndex = name === open ? 0 : -1;
      panels[i].hidden = name !== open;
    });
  }
  /** Marks the operands of lines; of lines that are marked already: marks none. */
  function setFocus(rows: number[]): void {
    view.focus = rows.join() === view.focus.join() ? [] : rows;
    draw();
  }
  function open(name: string): void {
    choices.tab = host.tab = name;
    keep();
    mark();
    draw();
  }
  /** Keeps open what the user works in. */
  function stay(): void {
    if (host.line && choices.line === undefined) {
      choices.line = false;
      keep();
    }
  }

  [tablist, jobs, ...panels].forEach(el => ['click', 'keydown'].forEach(kind => el.addEventListener(kind, stay)));
  tabs.forEach((button, i) => button.addEventListener('click', () => open(NAMES[i])));
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
  jobs.addEventListener('click', event => {
    const job = (event.target as Element).closest('button')?.dataset.job;
    if (job) {
      chosen = job === host.get('snap')?.job ? '' : job;
      draw();
    }
  });
  details.addEventListener('click', () => {
    choices.line = !isLine(host.get('snap') ?? null);
    keep();
    draw();
  });
  focusNote.addEventListener('click', event => {
    if ((event.target as Element).closest('button')) {
      setFocus([]);
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
