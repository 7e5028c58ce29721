// The form of the dialog that scales a cluster: a number, places of further hosts, or bounds between which the number follows the work.
import { h } from '../draw/dom';

/** What the Jupyter server takes: `Cluster.scale(n)`, or `Cluster.adapt(least, most)`. */
export type ScaleOrder = { n: number | string[] } | { least: number; most: number };

let made = 0;

/** What the fields say; throws an Error with the reason where a field that is needed is empty or wrong. */
export function scaleOrder({ how, n, places, least, most }: Record<string, string>): ScaleOrder {
  if (how === 'places') {
    const named = places.split(/[\s,]+/).filter(Boolean);
    if (!named.length) {
      throw new Error('name at least one machine, as ssh does: node-9, ada@node-10:2222');
    }
    return { n: named };
  }
  const number = (text: string): number => {
    if (!/^\d+$/.test(text.trim())) {
      throw new Error(`${text.trim() || 'an empty field'} is no number`);
    }
    return Number(text);
  };
  if (how === 'number') {
    return { n: number(n) };
  }
  const bounds = { least: number(least), most: number(most) };
  if (bounds.least > bounds.most) {
    throw new Error(`from ${bounds.least} to ${bounds.most} is empty`);
  }
  return bounds;
}

/** Makes the form; `what` is "hosts" or "workers", `now` their number, which may follow the work, `bounds` those between which it does. */
export function scaleForm(what: string, now: number, mayFollow: boolean, bounds: [number, number] | null = null): HTMLFormElement {
  const id = `jm-scale-${++made}`;
  const input = (name: string, label: string, more: Record<string, string | number>) => h('input', { name, 'aria-label': label, autocomplete: 'off', ...more });
  const number = (name: string, label: string, value: number) => input(name, label, { type: 'number', min: 0, value, class: 'jm-few' });
  const row = (how: string, words: string, ...fields: (Node | string)[]) => {
    const radio = h('input', { type: 'radio', name: 'how', value: how, id: `${id}-${how}` }) as HTMLInputElement;
    radio.checked = how === (bounds ? 'bounds' : 'number');
    const line = h('div', { class: 'jm-choice' }, radio, h('label', { for: radio.id }, words), ...fields);
    line.addEventListener('input', () => (radio.checked = true));
    return line;
  };
  const [least, most] = bounds ?? [Math.min(1, now), Math.max(1, now)];
  const form = h(
    'form',
    { class: 'jm-scale' },
    row('number', `Number of ${what}`, number('n', `Number of ${what}`, now)),
    what === 'hosts' ? row('places', 'Further hosts', input('places', 'Further hosts', { type: 'text', spellcheck: 'false', placeholder: 'node-9, ada@node-10' })) : null,
    mayFollow ? row('bounds', 'As the work needs, from', number('least', 'Least number', least), 'to', number('most', 'Largest number', most)) : null
  ) as HTMLFormElement;
  form.addEventListener('submit', event => event.preventDefault()); // the dialog has the button
  return form;
}

/** The fields of a form by name. */
export function fieldsOf(form: HTMLFormElement): Record<string, string> {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
}
