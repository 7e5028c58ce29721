// Draws the Plan tab: predicted beside measured costs, the plans tried, and advice for the next run.
import { bytes, count, fine, plural, share } from '../model/format';
import { PlanPart, SourceRow, TriedPlan } from '../model/view';
import { meaning, planMeaning } from '../model/words';
import { Child, h, morph } from './dom';
import { Tab } from './tab';

export const planTab: Tab = { name: 'plan', word: 'Plan', make: panel => now => drawPlan(panel, now.plan) };

function drawPlan(el: HTMLElement, plan: PlanPart | null): void {
  if (!plan) {
    morph(el, [h('p', { class: 'jm-note' }, 'There is no plan yet.')]);
    return;
  }
  const { predicted, measured } = plan;
  const listed = plan.sources ?? [];
  morph(el, [
    predicted || measured ? compared(plan) : null,
    h('p', { class: 'jm-note' }, sentences(plan)),
    listed.length ? sources(listed) : null,
    ...listed.filter(one => one.why).map(one => h('p', { class: 'jm-note jm-twice' }, `${one.name}${one.line ? ` of line ${count(one.line)}` : ''}: ${one.why}.`)),
    plan.advice.length ? h('h4', {}, 'Next time') : null,
    plan.advice.length ? h('ul', { class: 'jm-advice' }, ...plan.advice.map(text => h('li', {}, text))) : null,
    plan.tried.length ? tried(plan.tried, plan.stage) : null
  ]);
}

function sentences(plan: PlanPart): string {
  const texts = [
    plan.predicted ? '' : 'There is no prediction: planning would take longer than it can gain, so operands run in the order of the graph.',
    plan.stage > 1 && plan.predicted ? `The prediction adds up ${count(plan.stage)} stages, each planned when it began.` : '',
    plan.lower_bound > 0 ? `No plan ${plan.stage > 1 ? 'of all these stages ' : ''}takes less than ${fine(plan.lower_bound)}.` : '',
    plan.chosen ? `Chosen${plan.stage > 1 ? ` for stage ${count(plan.stage)}` : ''}: ${plan.chosen}${planMeaning(plan.chosen) ? ` (${planMeaning(plan.chosen)})` : ''}${plan.tried.length > 1 ? `, of ${count(plan.tried.length)} tried` : ''}.` : '',
    plan.replans ? `Planned anew ${plan.replans > 1 ? `${count(plan.replans)} times` : 'once'} while it ran${plan.why ? `: ${plan.why}` : ''}.` : '',
    ...(plan.refused ?? []).map(text => `${text}.`)
  ];
  return texts.filter(Boolean).join(' ') || 'There is no plan.';
}

function compared(plan: PlanPart): HTMLElement {
  const { predicted, measured } = plan;
  const toRead = plan.to_read ?? 0;
  const read = toRead && plan.read !== null && plan.read !== undefined ? plan.read : undefined;
  const rows: [string, Child, string, string][] = [
    ['time', predicted ? fine(predicted.makespan) : '–', measured ? fine(measured.makespan) : '–', off([predicted?.makespan ?? 0, predicted?.makespan ?? 0], measured?.makespan)],
    ['peak of chunks', predicted ? between(predicted.peak) : '–', measured ? bytes(measured.peak[1]) : '–', off(predicted?.peak ?? [0, 0], measured?.peak[1])],
    ['spilled', predicted ? bytes(predicted.spilled) : '–', measured ? bytes(measured.spilled) : '–', off([predicted?.spilled ?? 0, predicted?.spilled ?? 0], measured?.spilled)],
    ...(toRead ? [['read', bytes(toRead), read === undefined ? '–' : bytes(read), off([toRead, toRead], read)] as [string, Child, string, string]] : []),
    ['moved', predicted ? bytes(predicted.moved) : '–', measured ? bytes(measured.moved) : '–', off([predicted?.moved ?? 0, predicted?.moved ?? 0], measured?.moved)]
  ];
  return table(
    'predicted and measured',
    ['', 'predicted', 'measured', 'difference'],
    rows.map(([name, ...cells]) => h('tr', {}, h('th', { scope: 'row', title: meaning(`plan ${name}`) ?? meaning(name) }, name), ...cells.map(cell => h('td', { class: typeof cell === 'string' ? null : 'jm-range' }, cell))))
  );
}

/** The difference of a measurement from the nearest end of the predicted interval. */
function off([low, high]: number[], measured: number | undefined): string {
  if (measured === undefined || !high) {
    return '–';
  }
  return measured < low ? share(measured, low) : measured > high ? share(measured, high) : low < high ? 'within' : '±0 %';
}

/** An interval of bytes; the line may break between the two numbers, not within a number. */
function between([low, high]: number[]): Child {
  return bytes(low) !== bytes(high) ? h('div', {}, h('span', {}, bytes(low)), ' to ', h('span', {}, bytes(high))) : bytes(high);
}

/** The files and other sources of a job: bytes to read, and of how many. */
function sources(rows: SourceRow[]): HTMLElement {
  return table(
    'sources',
    ['source', 'line', 'to read', 'of', 'parts'],
    rows.map(row =>
      h(
        'tr',
        {},
        h('th', { scope: 'row' }, h('span', { class: 'jm-name', title: row.name }, row.name)),
        h('td', { class: 'jm-line' }, row.line ? h('b', {}, String(Number(row.line))) : null, h('code', { title: row.text }, row.text)),
        h('td', {}, bytes(row.read)),
        h('td', {}, bytes(row.nbytes)),
        h('td', { class: 'jm-spare', title: plural(row.parts, 'part') }, count(row.parts))
      )
    ),
    'parts'
  );
}

function tried(plans: TriedPlan[], stage: number): HTMLElement {
  const longest = Math.max(...plans.map(plan => plan.makespan), 1e-12);
  return table(
    'plans tried',
    [stage > 1 ? `plan tried for stage ${count(stage)}` : 'plan tried', 'time', 'peak', 'spilled', 'moved'],
    plans.map(plan =>
      h(
        'tr',
        {},
        h('th', { scope: 'row', title: planMeaning(plan.name) || plan.name }, plan.name),
        h('td', { class: 'jm-cell' }, h('span', {}, fine(plan.makespan)), h('span', { class: 'jm-meter', 'aria-hidden': 'true' }, h('i', { style: `width:${((100 * plan.makespan) / longest).toFixed(1)}%` }))),
        ...[plan.peak, plan.spilled].map(size => h('td', {}, bytes(size))),
        h('td', { class: 'jm-spare' }, bytes(plan.moved))
      )
    ),
    'moved'
  );
}

function table(label: string, names: string[], rows: Child[], spare = ''): HTMLElement {
  const look = (name: string, i: number) => (name === spare ? 'jm-spare' : i && name !== 'line' ? null : 'jm-word');
  const cell = (name: string, i: number) => (name ? h('th', { scope: 'col', class: look(name, i), title: meaning(`plan ${name}`) ?? meaning(name) }, name) : h('td', {}));
  return h('table', { class: 'jm-t', 'aria-label': label }, h('thead', {}, h('tr', {}, ...names.map(cell))), h('tbody', {}, ...rows));
}
