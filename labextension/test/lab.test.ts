// The plugin's parts without JupyterLab: forms, cards, commands on notebooks, ends of jobs.
import { ServerConnection } from '@jupyterlab/services';
import { Widget } from '@lumino/widgets';
import { describe, expect, test, vi } from 'vitest';
import type { ClusterRow, JobRow } from '../src/lab/api';
import { drawClusters, drawJobs, facts, follows, jobName, kernelName, scalable } from '../src/lab/cards';
import { connectCode, fileName, insertCell, replayCode, withMagic } from '../src/lab/notebook';
import { Ends } from '../src/lab/notices';
import { fieldsOf, scaleForm, scaleOrder, tooMany } from '../src/lab/scale_form';
import { Sidebar } from '../src/lab/sidebar';
import { orderOf, startForm } from '../src/lab/start_form';
import { ClusterWatch } from '../src/lab/watch';

vi.hoisted(() => vi.stubGlobal('DragEvent', class extends Event {})); // which jsdom lacks, and Lumino's widgets need

const job = (more: Partial<JobRow> = {}): JobRow => ({ id: 'job-1', name: 'In [3]', line: 0, state: 'running', elapsed: 1, progress: 0.5, kernel: 'k1', ...more });
const row = (more: Partial<ClusterRow> = {}): ClusterRow => ({
  id: 'abc',
  name: 'night',
  alive: true,
  kind: 'local',
  workers: 2,
  hosts: 0,
  limit: 2 ** 30,
  cores: 2,
  bounds: null,
  jobs: [job()],
  kernels: [{ id: 'k1', name: 'python3', path: 'a/fit.ipynb', busy: false }],
  others: 0,
  ...more
});
const preferences = { tab: 'graph', view: 'auto', states: 'colours', workers: 3, memoryLimit: '2GiB', statusBar: true, notify: 'background', notifyAfter: 5 };
const fields = { kind: 'local', name: '', workers: '', memory: '', hosts: '', python: '', address: '' };

describe('the form', () => {
  test('sends only what its kind needs', () => {
    expect(orderOf({ ...fields, workers: '2', memory: ' 1GiB ', hosts: 'a', address: 'b:1' })).toEqual({ kind: 'local', workers: 2, memory: '1GiB' });
    expect(orderOf({ ...fields, kind: 'ssh', hosts: 'node-7, ada@node-8\nlocal' }).hosts).toEqual(['node-7', 'ada@node-8', 'local']);
    expect(orderOf({ ...fields, kind: 'ssh', hosts: 'a', python: '/opt/env/bin/python' }).python).toBe('/opt/env/bin/python');
    expect(orderOf({ ...fields, kind: 'dask', address: 'head:8786', workers: '4' })).toEqual({ kind: 'dask', address: 'head:8786' });
    expect(orderOf({ ...fields, kind: 'ray' })).toEqual({ kind: 'ray' });
    expect(() => orderOf({ ...fields, kind: 'ssh', hosts: ' , ' })).toThrow('Name at least one machine');
    expect(() => orderOf({ ...fields, kind: 'dask' })).toThrow('Give the address');
  });
  test('shows the fields of its kind, begins with the settings, and says why a cluster did not start', async () => {
    const form = startForm(
      () => preferences,
      () => Promise.reject(new Error('no <i>machine</i> answers'))
    );
    document.body.append(form);
    const shown = () => [...form.querySelectorAll<HTMLElement>('.jm-field')].filter(one => !one.hidden).map(one => one.querySelector('label')!.textContent);
    expect(shown()).toEqual(['Where', 'Workers', 'Memory limit', 'Name']);
    const select = form.querySelector('select')!;
    select.value = 'dask';
    select.dispatchEvent(new Event('change'));
    expect(shown()).toEqual(['Where', 'Address', 'Name']);
    select.value = 'local';
    form.dispatchEvent(new Event('toggle'));
    expect(form.querySelector<HTMLInputElement>('[name=memory]')!.value).toBe('2GiB');
    form.querySelector('form')!.dispatchEvent(new Event('submit', { cancelable: true }));
    await Promise.resolve();
    await Promise.resolve();
    await Promise.resolve();
    expect(form.querySelector('[role=alert]')!.textContent).toBe('no <i>machine</i> answers');
    expect(form.querySelector('[role=status]')!.textContent).toBe('');
    form.remove();
  });
});

describe('the form that scales', () => {
  test('gives a number, places or bounds, and says what is wrong', () => {
    const given = { how: 'number', n: '3', places: '', least: '1', most: '4' };
    expect(scaleOrder(given)).toEqual({ n: 3 });
    expect(scaleOrder({ ...given, how: 'places', places: 'node-9, ada@node-10' })).toEqual({ n: ['node-9', 'ada@node-10'] });
    expect(scaleOrder({ ...given, how: 'bounds' })).toEqual({ least: 1, most: 4 });
    for (const [wrong, why] of [[{ n: '' }, 'an empty field'], [{ n: 'x' }, 'x is no whole number'], [{ n: '2.5' }, '2.5 is no whole'], [{ n: '-1' }, '-1 is no whole'], [{ n: '0' }, 'the least is 1'], [{ how: 'bounds', most: '0', least: '0' }, 'the least is 1'], [{ how: 'places' }, 'at least one machine'], [{ how: 'bounds', least: '5' }, 'from 5 to 4']] as const) {
      expect(() => scaleOrder({ ...given, ...wrong })).toThrow(why);
    }
  });
  test('selects what is typed into, and asks for hosts only where there are some', () => {
    const form = scaleForm('hosts', 2, true);
    expect(fieldsOf(form)).toEqual({ how: 'number', n: '2', places: '', least: '1', most: '2' });
    const most = form.querySelector<HTMLInputElement>('[name=most]')!;
    most.value = '5';
    most.dispatchEvent(new Event('input', { bubbles: true }));
    expect(scaleOrder(fieldsOf(form))).toEqual({ least: 1, most: 5 });
    expect(scaleForm('workers', 0, true).querySelector('[name=places]')).toBeNull();
    expect(fieldsOf(scaleForm('workers', 2, false))).toEqual({ how: 'number', n: '2' });
    expect(fieldsOf(scaleForm('hosts', 2, true, [1, 6]))).toEqual({ how: 'bounds', n: '2', places: '', least: '1', most: '6' });
  });
});

describe('the form that scales, while one types', () => {
  const typed = (form: HTMLFormElement, value: string) => {
    const input = form.querySelector<HTMLInputElement>('[name=n]')!;
    input.value = value;
    input.dispatchEvent(new Event('input', { bubbles: true }));
    return [form.checkValidity(), form.querySelector('[role=alert]')!.textContent, form.querySelector('[role=status]')!.textContent];
  };
  test('says what is wrong, and is invalid as long', () => {
    const form = scaleForm('workers', 2, false, null, 2);
    const looks: boolean[] = []; // of a dialog, which looks before the form, and again
    document.body.append(form);
    const look = () => looks.push(!form.querySelector(':invalid'));
    document.addEventListener('input', look, true);
    expect(typed(form, '0')).toEqual([false, '0 is too few: the least is 1.', '']);
    expect(looks[looks.length - 1]).toBe(false);
    expect(typed(form, '2.5')).toEqual([false, '2.5 is no whole number.', '']);
    expect(typed(form, '')).toEqual([false, 'An empty field is no whole number.', '']);
    expect(typed(form, '3')).toEqual([true, '', '']);
    expect(looks[looks.length - 1]).toBe(true);
    document.removeEventListener('input', look, true);
    form.remove();
  });
  test('tells of many more workers than cores, on one machine', () => {
    expect(typed(scaleForm('workers', 2, false, null, 2), '1000')[2]).toContain('workers on 2 cores');
    expect(typed(scaleForm('hosts', 2, true), '1000')[2]).toBe('');
    expect([tooMany(8, 2, 2), tooMany(9, 20, 2), tooMany(9, 2, 0)]).toEqual(['', '', '']);
    expect(tooMany(9, 2, 2)).toContain('9 workers on 2 cores');
  });
  test('has no choice where there is one way', () => {
    expect(scaleForm('workers', 2, false).querySelector<HTMLElement>('[type=radio]')!.hidden).toBe(true);
    expect(scaleForm('workers', 2, true).querySelector<HTMLElement>('[type=radio]')!.hidden).toBe(false);
  });
});

describe('replays', () => {
  test('are files with plain names, beside others', () => {
    expect(fileName('In [3], line 2', [])).toBe('In-3-line-2.run');
    expect(fileName('../a <b>', ['a-b.run', 'a-b-2.run'])).toBe('a-b-3.run');
    expect(fileName('<>', [])).toBe('job.run');
    expect(replayCode('a"b.run')).toBe('import jmars\njmars.replay("a\\"b.run")');
  });
});

describe('the side bar', () => {
  test('does not ask to start a cluster while one starts', async () => {
    vi.spyOn(ServerConnection, 'makeRequest').mockImplementation((url: string, init: RequestInit) =>
      init.method === 'POST' ? new Promise(() => undefined) : (Promise.resolve({ ok: true, status: 200, json: () => Promise.resolve([]) }) as never)
    );
    const watch = new ClusterWatch(ServerConnection.makeSettings({ baseUrl: 'http://localhost/' }));
    const side = new Sidebar(watch, () => preferences, () => undefined);
    Widget.attach(side, document.body);
    await watch.poll();
    const note = side.node.querySelector<HTMLElement>(':scope > .jm-note')!;
    expect([note.hidden, note.textContent!.slice(0, 21)]).toEqual([false, 'No cluster is running']);
    side.node.querySelector('form')!.dispatchEvent(new Event('submit', { cancelable: true }));
    await watch.poll();
    expect([note.hidden, side.node.querySelector('form [role=status]')!.textContent]).toEqual([true, 'The cluster is starting…']);
    side.dispose();
    watch.dispose();
    vi.restoreAllMocks();
  });
});

describe('the view of the side bar', () => {
  test('stays at its tab from job to job and from cluster to cluster, and prefers a cluster with a running job', async () => {
    const streams: { url: string; send: (frame: unknown) => void }[] = [];
    const WebSocket = class {
      onmessage: (event: unknown) => void = () => undefined;
      constructor(url: string) {
        streams.push({ url, send: frame => this.onmessage({ data: JSON.stringify(frame) }) });
      }
      close() {}
    };
    let rows = [row({ id: 'done', jobs: [] }), row({ id: 'old' }), row({ id: 'new' })];
    vi.spyOn(ServerConnection, 'makeRequest').mockImplementation(() => Promise.resolve({ ok: true, status: 200, json: () => Promise.resolve(rows) } as never));
    const watch = new ClusterWatch(ServerConnection.makeSettings({ baseUrl: 'http://localhost/', wsUrl: 'ws://localhost/', WebSocket: WebSocket as never }));
    const side = new Sidebar(watch, () => preferences, () => undefined);
    Widget.attach(side, document.body);
    await watch.poll();
    const tab = (name: string) => [...side.node.querySelectorAll<HTMLElement>('[role=tab]')].find(one => one.textContent === name)!;
    const chosen = () => side.node.querySelector('[role=tab][aria-selected=true]')!.textContent;
    const last = () => streams[streams.length - 1];
    expect(last().url).toContain('/old');
    last().send({ job: 'job-1', picture: {} });
    const first = tab('Workers');
    first.click();
    last().send({ job: 'job-2', picture: {} });
    expect([chosen(), first.isConnected]).toEqual(['Workers', false]);
    rows = [row({ id: 'old', alive: false }), row({ id: 'new' })];
    await watch.poll();
    expect([last().url.includes('/new'), tab('Workers')]).toEqual([true, undefined]);
    last().send({ job: 'job-2', picture: {} });
    expect(chosen()).toBe('Workers');
    side.dispose();
    watch.dispose();
    vi.restoreAllMocks();
  });
});

describe('the list of clusters', () => {
  test('is asked for once more when news comes during a question, and not for a job while another runs', async () => {
    const answers: ((value: unknown) => void)[] = [];
    vi.spyOn(ServerConnection, 'makeRequest').mockImplementation(() => new Promise(resolve => answers.push(resolve as never)));
    const answer = async (rows: unknown[]) => {
      answers.shift()!({ ok: true, status: 200, json: () => Promise.resolve(rows) });
      await new Promise(resolve => setTimeout(resolve));
    };
    const watch = new ClusterWatch(ServerConnection.makeSettings({ baseUrl: 'http://localhost/' }));
    void watch.poll(); // a cell has begun, and the question before it is not answered yet
    watch.expect();
    expect(answers.length).toBe(1);
    await answer([]);
    expect([answers.length, watch.running.length]).toEqual([1, 0]);
    await answer([row()]);
    expect([answers.length, watch.running.length]).toEqual([0, 1]);
    watch.expect();
    expect(answers.length).toBe(0);
    watch.dispose();
    vi.restoreAllMocks();
  });
  test('is asked for twice a second while a job runs, then seldom', async () => {
    vi.useFakeTimers();
    const rows = [row()];
    const asked = vi.spyOn(ServerConnection, 'makeRequest').mockImplementation(() => Promise.resolve({ ok: true, status: 200, json: () => Promise.resolve(rows) } as never));
    const watch = new ClusterWatch(ServerConnection.makeSettings({ baseUrl: 'http://localhost/' }));
    await vi.advanceTimersByTimeAsync(2100);
    expect(asked.mock.calls.length).toBe(5);
    rows[0] = row({ jobs: [job({ state: 'succeeded' })] });
    await vi.advanceTimersByTimeAsync(5000);
    expect(asked.mock.calls.length).toBe(6);
    watch.dispose();
    vi.useRealTimers();
    vi.restoreAllMocks();
  });
});

describe('the cards', () => {
  test('tell workers, kernels and what can be scaled', () => {
    expect(facts(row())).toBe('2 workers, limit 1.0 GiB, 1 running job');
    expect(facts(row({ hosts: 3, workers: 6 }))).toBe('6 workers on 3 hosts, limit 1.0 GiB, 1 running job');
    expect(facts(row({ kind: 'dask' }))).toBe('2 workers of Dask, limit 1.0 GiB, 1 running job');
    expect(facts(row({ hosts: 2, bounds: [1, 4] }))).toBe('2 workers on 2 hosts, 1 to 4 as the work needs, limit 1.0 GiB, 1 running job');
    expect(facts(row({ alive: false }))).toContain('does not answer: it is very busy');
    expect(facts(row({ jobs: [job({ state: 'succeeded' })] }))).toBe('2 workers, limit 1.0 GiB, no job runs');
    expect([scalable(row()), scalable(row({ hosts: 2 })), scalable(row({ kind: 'ray' }))]).toEqual(['workers', 'hosts', 'workers']);
    expect([follows(row()), follows(row({ hosts: 2 })), follows(row({ kind: 'ray' }))]).toEqual([false, true, true]);
    expect(kernelName(row().kernels[0])).toBe('fit.ipynb (python3)');
    expect(kernelName({ id: '', name: 'py', path: '', busy: true })).toBe('a console (py, busy)');
  });
  test('tell jobs of a cell apart by their lines', () => {
    const lines = [4, 5].map((line, i) => job({ id: `job-${i}`, line }));
    expect(drawJobs(lines, '', () => '').map(one => one.querySelector('.jm-job .jm-name')!.textContent)).toEqual(['In [3], line 5', 'In [3], line 4']);
    expect([job(), job({ name: 'a sum', line: 4 }), job({ name: '' })].map(jobName)).toEqual(['In [3]', 'a sum', 'job-1']);
  });
  test('name the notebooks of jobs where there are several', () => {
    const jobs = ['a', 'b'].map(id => job({ id }));
    const named = (paths: Record<string, string>) => drawJobs(jobs, 'b', () => '', id => paths[id] ?? '').map(one => [one.querySelector('.jm-name')!.textContent, one.querySelector<HTMLElement>('.jm-job')!.title]);
    expect(named({ a: 'x/fit.ipynb', b: 'x/fit.ipynb' })).toEqual([['In [3]', 'x/fit.ipynb'], ['In [3]', 'x/fit.ipynb']]);
    expect(named({ a: 'x/fit.ipynb', b: 'x/see.ipynb' })).toEqual([['In [3] · see.ipynb', 'x/see.ipynb'], ['In [3] · fit.ipynb', 'x/fit.ipynb']]);
    const [shown] = drawJobs(jobs, 'b', () => '', id => `${id}.ipynb`);
    expect([...shown.querySelectorAll('.jm-button')].map(one => one.getAttribute('aria-label'))).toEqual([
      'Open the view of In [3] of b.ipynb in the main area', 'Report of In [3] of b.ipynb', 'Save the replay of In [3] of b.ipynb'
    ]); // prettier-ignore
  });
  test('are those of the notebook in front first, with jobs below their card, and other programs folded', () => {
    const rows = [row({ id: 'script', kernels: [], others: 1 }), row({ id: 'b', kernels: [{ ...row().kernels[0], id: 'k2' }] }), row({ id: 'mine' }), row({ id: 'idle', kernels: [] })];
    const list = document.createElement('ul');
    const draw = (unfolded = false, selected = 'mine') => {
      list.replaceChildren(...drawClusters(rows, selected, drawJobs([job()], '', () => ''), 'k1', unfolded));
      return [...list.querySelectorAll<HTMLElement>(':scope > li > [data-cluster], [data-others]')].map(one => one.dataset.cluster ?? one.textContent);
    };
    expect(draw()).toEqual(['mine', 'b', 'idle', '1 cluster of other programs']);
    expect(list.querySelector('.jm-jobs')!.closest('.jm-cluster')!.querySelector<HTMLElement>('.jm-card')!.dataset.cluster).toBe('mine');
    expect(draw(true)).toEqual(['mine', 'b', 'idle', '1 cluster of other programs', 'script']);
    expect(draw(false, 'script')[4]).toBe('script');
  });
  test('write all texts as text, and say what can be scaled', () => {
    const name = '<img src=x onerror=alert(1)>';
    const cards = drawClusters([row({ name, kernels: [{ id: 'k', name, path: name, busy: false }] }), row({ id: 'def' })], 'abc');
    document.body.append(...cards, ...drawJobs([job({ name })], 'job-1', id => `report-of-${id}`));
    expect(document.querySelectorAll('img').length).toBe(0);
    expect(document.querySelectorAll('.jm-more').length).toBe(1);
    expect(document.querySelector('.jm-more .jm-note')!.textContent).toBe('Begin a cell with %%jmars to compute on this cluster.');
    const lone = drawClusters([row({ kernels: [] })], 'abc')[0].querySelector('.jm-more .jm-note')!.textContent;
    expect(lone).toBe('No notebook is connected. Open a notebook, click Connect, and run the cell that comes. Begin a cell with %%jmars to compute on this cluster.');
    const scale = (card: ClusterRow) => drawClusters([card], card.id)[0].querySelector<HTMLButtonElement>('[data-act=scale]')!;
    expect([scale(row()).disabled, scale(row()).title]).toEqual([false, 'Change the number of workers']);
    expect([scale(row({ hosts: 2 })).disabled, scale(row({ hosts: 2 })).title]).toEqual([false, 'Change the number of hosts, or have it follow the work']);
    expect(document.querySelector('[data-open]')!.getAttribute('aria-label')).toContain(name);
    const report = document.querySelector<HTMLAnchorElement>('.jm-jobs a, a')!;
    expect([report.getAttribute('href'), report.target, report.rel]).toEqual(['report-of-job-1', '_blank', 'noopener']);
    document.body.replaceChildren();
  });
});

describe('cells', () => {
  test('connect by a plain name of one cluster, else by the id', () => {
    expect(connectCode(row(), [row()])).toBe('%reload_ext jmars\ncluster = %jmars connect night\ncluster');
    expect(connectCode(row(), [row(), row({ id: 'def' })])).toContain('connect abc');
    expect(connectCode(row({ name: 'x\nimport os' }), [])).toBe('%reload_ext jmars\ncluster = %jmars connect abc\ncluster');
  });
  test('are scrolled to when they are inserted, and when they are there already', () => {
    const cells = [{ getSource: () => 'x' }, { getSource: () => 'y' }];
    const insert = (at: number, { source }: { source: string }) => cells.splice(at, 0, { getSource: () => source });
    const scrolled: unknown[] = [];
    const content = { activeCellIndex: 1, model: { sharedModel: { cells, insertCell: insert } }, scrollToItem: async (...to: unknown[]) => void scrolled.push(to) };
    const app = { shell: { currentWidget: { id: 'notebook', content }, activateById: () => undefined } } as never;
    expect(insertCell(app, 'connect')).toBe(true);
    content.activeCellIndex = 0;
    expect(insertCell(app, 'connect')).toBe(true);
    expect([cells.map(cell => cell.getSource()), content.activeCellIndex, scrolled]).toEqual([['x', 'connect', 'y'], 1, [[1, 'smart'], [1, 'smart']]]);
  });
  test('get the magic once', () => {
    expect(withMagic('x = 1', '')).toBe('%%jmars\nx = 1');
    expect(withMagic('x = 1', '2 GiB')).toBe('%%jmars --memory 2GiB\nx = 1');
    expect(withMagic('%%jmars -b\nx', '2GiB')).toBe('%%jmars -b\nx');
    expect(withMagic('%%time\nx', '')).toBe('%%time\nx');
  });
});

describe('ends of jobs', () => {
  const ended = job({ state: 'succeeded', elapsed: 9 });
  const texts = (ends: Ends, rows: ClusterRow[], more = {}) => ends.next(rows, { ...preferences, ...more }).map(one => one.text);
  test('are told once, of jobs that no cell waited for', () => {
    const ends = new Ends();
    expect(texts(ends, [row()])).toEqual([]);
    expect(texts(ends, [row({ jobs: [ended] })])).toEqual(['jmars: In [3] of fit.ipynb succeeded after 9.0 s']);
    expect(texts(ends, [row({ jobs: [ended] })])).toEqual([]);
  });
  test('are not told of jobs that a cell waited for, short ones, and those before the page', () => {
    const busy = row({ kernels: [{ ...row().kernels[0], busy: true }] });
    const ends = new Ends();
    texts(ends, [busy]);
    expect(texts(ends, [{ ...busy, jobs: [ended] }])).toEqual([]);
    expect(texts(new Ends(), [row({ jobs: [ended] })])).toEqual([]);
    const short = new Ends();
    texts(short, [row()]);
    expect(texts(short, [row({ jobs: [job({ state: 'failed', elapsed: 4 })] })])).toEqual([]);
    const all = new Ends();
    texts(all, [busy], { notify: 'all' });
    expect(texts(all, [{ ...busy, jobs: [ended] }], { notify: 'all' })).toHaveLength(1);
  });
  test('are not told of jobs of other programs', () => {
    const ends = new Ends();
    const other = { kernel: '', id: 'job-9' };
    texts(ends, [row({ jobs: [job(other)] })]);
    expect(texts(ends, [row({ jobs: [{ ...ended, ...other }] })])).toEqual([]);
  });
  test('are told of a job whose cell was sent to the background', () => {
    const busy = row({ kernels: [{ ...row().kernels[0], busy: true }] });
    const ends = new Ends();
    texts(ends, [busy]);
    texts(ends, [row()]);
    expect(texts(ends, [{ ...busy, jobs: [ended] }])).toHaveLength(1);
  });
});
