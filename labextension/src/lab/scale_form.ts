// The form of the dialog that scales a cluster: a number, places of further hosts, or bounds between which the number follows the work.
import { h } from '../draw/dom';
import { count, plural } from '../model/format';

/** What the Jupyter server takes: `Cluster.scale(n)`, or `Cluster.adapt(least, most)`. */
export type ScaleOrder = { n: number | string[] } | { least: number; most: number };

const MANY = 4; // workers for each core, beyond which one is asked again
const NUMBERS = ['n', 'least', 'most'];

let made = 0;

/** What is wrong with a field, by its name. */
class Wrong extends Error {
  constructor(
    readonly field: string,
    why: string
  ) {
    super(why);
  }
}

/** What the fields say; throws an Error with the reason where a field that is needed is empty or wrong. */
export function scaleOrder(fields: Record<string, string>): ScaleOrder {
  if (fields.how === 'places') {
    const named = fields.places.split(/[\s,]+/).filter(Boolean);
    if (!named.length) {
      throw new Wrong('places', 'name at least one machine, as ssh does: node-9, ada@node-10:2222');
    }
    return { n: named };
  }
  const number = (name: string, least: number): number => {
    const text = (fields[name] ?? '').trim();
    if (!/^\d+$/.test(text)) {
      throw new Wrong(name, `${text || 'an empty field'} is no whole number`);
    }
    if (Number(text) < least) {
      throw new Wrong(name, `${text} is too few: the least is ${least}`);
    }
    return Number(text);
  };
  if (fields.how === 'number') {
    return { n: number('n', 1) };
  }
  const bounds = { least: number('least', 0), most: number('most', 1) };
  if (bounds.least > bounds.most) {
    throw new Wrong('most', `from ${bounds.least} to ${bounds.most} is empty`);
  }
  return bounds;
}

/** Why so many workers on one machine may be a mistake; "" where they are not. `cores`: of the machine, 0 where unknown. */
export function tooMany(n: number, now: number, cores: number): string {
  return cores && n > Math.max(MANY * cores, now) ? `${count(n)} workers on ${plural(cores, 'core')}: each is a process of its own, and they take turns.` : '';
}

/**
 * Makes the form; `what` is "hosts" or "workers", `now` their number, which may follow the work, `bounds` those between which it
 * does, `cores` of the machine of all workers, else 0. While a field is wrong, the form says why and is invalid.
 */
export function scaleForm(what: string, now: number, mayFollow: boolean, bounds: [number, number] | null = null, cores = 0): HTMLFormElement {
  const id = `jm-scale-${++made}`;
  const told = h('p', { class: 'jm-note jm-wrong', role: 'alert', id: `${id}-told` });
  const many = h('p', { class: 'jm-note', role: 'status' });
  const input = (name: string, label: string, more: Record<string, string | number>) => h('input', { name, 'aria-label': label, 'aria-describedby': told.id, autocomplete: 'off', ...more });
  const number = (name: string, label: string, value: number, min = 0) => input(name, label, { type: 'number', min, step: 1, value, class: 'jm-few' });
  const ways = [
    ['number', `Number of ${what}`, number('n', `Number of ${what}`, now, 1)],
    what === 'hosts' && ['places', 'Further hosts', input('places', 'Further hosts', { type: 'text', spellcheck: 'false', placeholder: 'node-9, ada@node-10' })],
    mayFollow && ['bounds', 'As the work needs, from', number('least', 'Least number', bounds?.[0] ?? Math.min(1, now)), 'to', number('most', 'Largest number', bounds?.[1] ?? Math.max(1, now), 1)]
  ].filter(way => Array.isArray(way)) as [string, string, ...(HTMLElement | string)[]][];
  const row = ([how, words, ...fields]: [string, string, ...(HTMLElement | string)[]]) => {
    const radio = h('input', { type: 'radio', name: 'how', value: how, id: `${id}-${how}`, hidden: ways.length === 1 }) as HTMLInputElement;
    radio.checked = how === (bounds ? 'bounds' : 'number');
    const line = h('div', { class: 'jm-choice' }, radio, h('label', { for: radio.id }, words), ...fields);
    line.addEventListener('input', () => (radio.checked = true));
    return line;
  };
  const form = h('form', { class: 'jm-scale' }, ...ways.map(row), told, many) as HTMLFormElement;
  form.addEventListener('submit', event => event.preventDefault()); // the dialog has the button
  form.addEventListener('input', event => {
    if (event.target !== form) {
      check();
      form.dispatchEvent(new Event('input', { bubbles: true })); // the dialog has looked before the form, and looks again
    }
  });
  function check(): void {
    const inputs = [...form.querySelectorAll<HTMLInputElement>('.jm-choice input:not([type=radio])')];
    inputs.forEach(one => one.setCustomValidity(''));
    told.textContent = many.textContent = '';
    const fields = fieldsOf(form);
    try {
      const order = scaleOrder(fields);
      many.textContent = 'n' in order && typeof order.n === 'number' ? tooMany(order.n, now, cores) : '';
    } catch (error) {
      const { field, message } = error as Wrong;
      const one = inputs.find(({ name }) => name === field);
      const why = NUMBERS.includes(field) && one?.validity?.badInput ? 'that is no whole number' : message;
      one?.setCustomValidity(why);
      told.textContent = `${why[0].toUpperCase()}${why.slice(1)}.`;
    }
  }
  return form;
}

/** The fields of a form by name. */
export function fieldsOf(form: HTMLFormElement): Record<string, string> {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
}
