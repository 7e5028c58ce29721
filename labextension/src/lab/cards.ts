// Draws the clusters and the jobs of the side bar. All texts are written as text.
import { h } from '../draw/dom';
import { ENDED } from '../draw/header';
import { bytes, plural, seconds } from '../model/format';
import { ClusterRow, JobRow, KernelRow } from './api';

const JOBS = 20; // of a cluster that are listed

/** What can be scaled: "hosts" or "workers". */
export function scalable(row: ClusterRow): string {
  return row.hosts ? 'hosts' : 'workers';
}

/** Whether the number of workers or hosts can follow the work. */
export function follows(row: ClusterRow): boolean {
  return Boolean(row.hosts) || ['dask', 'ray'].includes(row.kind);
}

/** The facts of a cluster in a line. */
export function facts(row: ClusterRow): string {
  if (!row.alive) {
    return 'does not answer: it is very busy, or its process is stopped; it is asked again';
  }
  const where = row.hosts ? ` on ${plural(row.hosts, 'host')}` : ['dask', 'ray'].includes(row.kind) ? ` of ${row.kind === 'dask' ? 'Dask' : 'Ray'}` : '';
  const running = row.jobs.filter(job => !ENDED.includes(job.state)).length;
  const bounds = row.bounds ? `${row.bounds[0]} to ${row.bounds[1]} as the work needs` : '';
  return [`${plural(row.workers, 'worker')}${where}`, bounds, row.limit ? `limit ${bytes(row.limit)}` : '', running ? plural(running, 'running job') : 'no job runs'].filter(Boolean).join(', ');
}

/** A kernel as people know it: by its notebook. */
export function kernelName({ path, name, busy }: KernelRow): string {
  return `${path.split('/').pop() || 'a console'} (${name}${busy ? ', busy' : ''})`;
}

export function drawClusters(rows: readonly ClusterRow[], selected: string): HTMLElement[] {
  return rows.map(row =>
    h(
      'li',
      { class: 'jm-cluster' },
      h(
        'button',
        { type: 'button', class: 'jm-card', 'data-cluster': row.id, 'aria-pressed': String(row.id === selected), disabled: !row.alive },
        h('b', {}, row.name || row.id),
        h('span', {}, facts(row))
      ),
      row.alive && row.id === selected ? h('div', { class: 'jm-more' }, connected(row), actions(row)) : null
    )
  );
}

function connected(row: ClusterRow): HTMLElement {
  const names = row.kernels.map(kernel => h('li', { title: kernel.path }, kernelName(kernel)));
  const others = row.others ? h('li', {}, plural(row.others, 'other program')) : null;
  const list = h('ul', { class: 'jm-kernels', 'aria-label': `connected to ${row.name || row.id}` }, ...names, others);
  const first = names.length ? '' : `${others ? '' : 'No notebook is connected. '}Open a notebook, click Connect, and run the cell that comes. `;
  return h('div', {}, names.length || others ? list : null, h('p', { class: 'jm-note' }, `${first}Begin a cell with %%jmars to compute on this cluster.`));
}

function actions(row: ClusterRow): HTMLElement {
  const button = (act: string, label: string, title: string) => h('button', { type: 'button', class: 'jm-button', 'data-act': act, 'data-cluster': row.id, title }, label);
  return h(
    'div',
    { class: 'jm-actions', role: 'group', 'aria-label': `actions for ${row.name || row.id}` },
    button('connect', 'Connect', 'Insert a cell into the current notebook that connects its kernel'),
    button('timeline', 'Timeline', 'Open the time line of all jobs of this cluster'),
    button('scale', 'Scale…', `Change the number of ${scalable(row)}${follows(row) ? ', or have it follow the work' : ''}`),
    button('stop', 'Stop…', 'End the cluster for all its clients')
  );
}

/** The name of a job; of a cell's job with its line, since a cell may have several: "In [7], line 4". */
export function jobName({ id, name, line }: JobRow): string {
  return line && /^In \[\d+\]$/.test(name) ? `${name}, line ${Number(line)}` : name || id;
}

/**
 * The jobs, newest first; `report` is the address of a job's report, `notebook` the path of the notebook of a job, "" where that is
 * not known. Where several notebooks have jobs, each job has the name of its own.
 */
export function drawJobs(jobs: readonly JobRow[], shown: string, report: (job: string) => string, notebook: (job: string) => string = () => ''): HTMLElement[] {
  const listed = jobs.slice(-JOBS);
  const several = new Set(listed.map(job => notebook(job.id))).size > 1;
  return listed
    .reverse()
    .map(job => {
      const path = notebook(job.id);
      const where = several && path ? path.split('/').pop()! : '';
      const name = `${jobName(job)}${where ? ` of ${where}` : ''}`;
      const cancel = ENDED.includes(job.state) || job.id === shown ? null : h('button', { type: 'button', class: 'jm-button jm-cancel', 'data-cancel': job.id, 'aria-label': `Cancel ${name}` }, 'Cancel');
      return h(
        'li',
        { 'data-state': job.state },
        h('button', { type: 'button', class: 'jm-job', 'data-job': job.id, 'aria-pressed': String(job.id === shown), title: path || null }, h('span', { class: 'jm-name' }, jobName(job), where ? h('span', { class: 'jm-where' }, ` · ${where}`) : null), h('span', { class: 'jm-time' }, `${job.state}, ${seconds(job.elapsed)}`)),
        cancel,
        job.id === shown ? h('button', { type: 'button', class: 'jm-button', 'data-open': job.id, 'aria-label': `Open the view of ${name} in the main area`, title: 'Open the view of this job in the main area' }, 'Open') : null,
        job.id === shown ? h('a', { class: 'jm-button', href: report(job.id), target: '_blank', rel: 'noopener', 'aria-label': `Report of ${name}`, title: 'Open the report of this job in a tab of its own: where the time and the memory went' }, 'Report') : null,
        job.id === shown ? h('button', { type: 'button', class: 'jm-button', 'data-replay': job.id, 'aria-label': `Save the replay of ${name}`, title: 'Save the run of this job as a file, which jmars.replay shows at any moment of the run' }, 'Save replay…') : null
      );
    });
}
