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

/** Whether only programs other than this server's notebooks are connected. */
export function isOther(row: ClusterRow): boolean {
  return row.alive && !row.kernels.length && row.others > 0;
}

/** The cluster of a kernel: that of its running job, else `shown` if it is one, else the newest. */
export function clusterOf(rows: readonly ClusterRow[], kernel: string, shown = ''): ClusterRow | undefined {
  const mine = rows.filter(row => row.alive && kernel && row.kernels.some(({ id }) => id === kernel));
  return mine.find(row => row.jobs.some(job => job.kernel === kernel && !ENDED.includes(job.state))) ?? mine.find(({ id }) => id === shown) ?? mine[mine.length - 1];
}

/** The name of a job with its notebook: "In [3], line 2 of fit.ipynb". */
export function jobTitle(cluster: ClusterRow, job: JobRow): string {
  const path = cluster.kernels.find(({ id }) => id === job.kernel)?.path;
  return `${jobName(job)}${path ? ` of ${path.split('/').pop()}` : ''}`;
}

/**
 * The clusters: that of the kernel `front` first, those of other programs at the end, behind a heading that opens (`unfolded`). Below
 * the card of the selected cluster stand `jobs`.
 */
export function drawClusters(rows: readonly ClusterRow[], selected: string, jobs: HTMLElement[] = [], front = '', unfolded = false): HTMLElement[] {
  const first = clusterOf(rows, front, selected);
  const mine = rows.filter(row => !isOther(row));
  const others = rows.filter(isOther);
  const heading = h('li', {}, h('button', { type: 'button', class: 'jm-fold', 'data-others': true, 'aria-expanded': String(unfolded) }, `${plural(others.length, 'cluster')} of other programs`));
  const shown = unfolded ? others : others.filter(row => row.id === selected);
  return [...cards([...mine.filter(row => row === first), ...mine.filter(row => row !== first)], selected, jobs), ...(others.length ? [heading] : []), ...cards(shown, selected, jobs)];
}

function cards(rows: readonly ClusterRow[], selected: string, jobs: HTMLElement[]): HTMLElement[] {
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
      row.alive && row.id === selected ? h('div', { class: 'jm-more' }, connected(row), actions(row)) : null,
      row.alive && row.id === selected && jobs.length ? h('ul', { class: 'jm-jobs', 'aria-label': `jobs of ${row.name || row.id}`, tabindex: 0 }, ...jobs) : null
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
