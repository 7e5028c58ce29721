// The form of the side bar that starts a cluster: on this machine, by ssh, on Dask or on Ray.
import { h } from '../draw/dom';
import { StartOrder } from './api';
import { Preferences } from './settings';

const KINDS = [
  ['local', 'This machine'],
  ['ssh', 'Machines by ssh'],
  ['dask', 'Dask cluster'],
  ['ray', 'Ray cluster']
] as const;
const OWN = ['local', 'ssh']; // with workers of jmars

let made = 0;

/** What the fields of the form say; throws an Error with the reason where a field that is needed is empty. */
export function orderOf(fields: Record<string, string>): StartOrder {
  const { kind, name, workers, memory, hosts, python, address } = Object.fromEntries(Object.entries(fields).map(([key, text]) => [key, text.trim()])) as Record<string, string>;
  const order: StartOrder = { kind };
  if (name) {
    order.name = name;
  }
  if (OWN.includes(kind)) {
    if (workers) {
      order.workers = Number(workers);
    }
    if (memory) {
      order.memory = memory;
    }
  } else if (address) {
    order.address = address;
  }
  if (kind === 'ssh') {
    if (python) {
      order.python = python;
    }
    order.hosts = hosts.split(/[\s,]+/).filter(Boolean);
    if (!order.hosts.length) {
      throw new Error('Name at least one machine, as ssh does: node-7, ada@node-7:2222');
    }
  }
  if (kind === 'dask' && !address) {
    throw new Error('Give the address of the Dask scheduler: host:8786');
  }
  return order;
}

/** Makes the form. `start` rejects with the reason for the user. */
export function startForm(preferences: () => Preferences, start: (order: StartOrder) => Promise<unknown>): HTMLDetailsElement {
  const id = `jm-start-${++made}`;
  const field = (name: string, label: string, kinds: readonly string[], input: HTMLElement): HTMLElement => {
    input.id = `${id}-${name}`;
    input.setAttribute('name', name);
    return h('div', { class: 'jm-field', 'data-kinds': kinds.join(' ') }, h('label', { for: input.id }, label), input);
  };
  const all = KINDS.map(([kind]) => kind);
  const select = h('select', {}, ...KINDS.map(([kind, words]) => h('option', { value: kind }, words))) as HTMLSelectElement;
  const input = (placeholder: string, more: Record<string, string | number> = {}) => h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', placeholder, ...more }) as HTMLInputElement;
  const workers = input('one per core', { type: 'number', min: 1 });
  const memory = input('half of what is free');
  const address = input('host:port');
  const button = h('button', { type: 'submit', class: 'jm-button jm-go' }, 'Start') as HTMLButtonElement;
  const told = h('p', { class: 'jm-note', role: 'status' });
  const wrong = h('p', { class: 'jm-note jm-wrong', role: 'alert' });
  const fields = [
    field('kind', 'Where', all, select),
    field('hosts', 'Machines', ['ssh'], input('node-7, ada@node-8:2222')),
    field('python', 'Python there', ['ssh'], input('python3')),
    field('address', 'Address', ['dask', 'ray'], address),
    field('workers', 'Workers', OWN, workers),
    field('memory', 'Memory limit', OWN, memory),
    field('name', 'Name', all, input('any'))
  ];
  const form = h('form', { class: 'jm-form' }, ...fields, button, told, wrong) as HTMLFormElement;
  const root = h('details', { class: 'jm-start' }, h('summary', {}, 'New cluster'), form) as HTMLDetailsElement;
  const fit = () => {
    fields.forEach(one => (one.hidden = !one.dataset.kinds!.split(' ').includes(select.value)));
    address.placeholder = select.value === 'ray' ? 'host:port; empty for the Ray of this machine' : 'host:8786';
  };
  select.addEventListener('change', fit);
  root.addEventListener('toggle', () => {
    const { workers: many, memoryLimit } = preferences();
    workers.value ||= many ? String(many) : '';
    memory.value ||= memoryLimit;
  });
  form.addEventListener('submit', event => {
    event.preventDefault();
    void submit();
  });
  async function submit(): Promise<void> {
    button.disabled = true;
    told.textContent = 'The cluster is starting…';
    wrong.textContent = '';
    try {
      await start(orderOf(Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]))));
      root.open = false;
      form.reset();
      fit();
    } catch (error) {
      wrong.textContent = error instanceof Error ? error.message : 'It did not start.';
    } finally {
      told.textContent = '';
      button.disabled = false;
    }
  }
  fit();
  return root;
}
