// Client of the Jupyter server extension: REST and stream. The browser never sees the address or token of a cluster.
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { Saved } from '../draw/replayed';
import { Lanes } from '../model/view';
import { ScaleOrder } from './scale_form';

export interface JobRow {
  id: string;
  name: string;
  line: number; // of the cell that asked for it; 0 where unknown
  state: string;
  elapsed: number;
  progress: number; // from 0 to 1
  kernel?: string; // id of the kernel that submitted it; "" for another program; absent in frames of the stream
}

/** A kernel that is connected to a cluster. */
export interface KernelRow {
  id: string;
  name: string;
  path: string; // of its notebook; "" for none
  busy: boolean;
}

export interface ClusterRow {
  id: string;
  name: string;
  alive: boolean;
  kind: string; // "local", "dask", "ray", "ssh"
  workers: number;
  hosts: number; // 0 for a cluster that is not one of several hosts
  limit: number; // bytes of memory
  cores: number; // of the machine of the Jupyter server
  bounds: [number, number] | null; // between which the number of hosts or workers follows the work
  jobs: JobRow[];
  kernels: KernelRow[];
  others: number; // connected programs that are no kernels of this server
  error?: string;
}

/** A cluster to start; fields that are left out have the cluster's defaults. */
export interface StartOrder {
  kind: string;
  name?: string;
  workers?: number;
  memory?: string;
  hosts?: string[];
  python?: string;
  address?: string;
}

/** The time line of a cluster over all its jobs. */
export interface History {
  begun: number; // seconds since the epoch
  elapsed: number;
  jobs: number;
  operands: number;
  workers: string[]; // names by number
  lanes: Lanes;
}

/** A message of the stream: the jobs of the cluster, and changed traits of the shown job's picture. */
export interface StreamFrame {
  jobs?: JobRow[];
  job?: string;
  picture?: Record<string, unknown>;
  history?: History | null;
  error?: string;
}

const RETRY = { first: 500, most: 10000 }; // ms
const PART = 8192; // bytes that are made text at once

async function respond(settings: ServerConnection.ISettings, path: string[], init: RequestInit = {}): Promise<Response> {
  const url = URLExt.join(settings.baseUrl, 'jmars', ...path.map(encodeURIComponent));
  const response = await ServerConnection.makeRequest(url, init, settings);
  if (!response.ok) {
    const told: { message?: string } = await response.json().catch(() => ({}));
    throw new ServerConnection.ResponseError(response, told.message || `${response.status} ${response.statusText}`);
  }
  return response;
}

async function request<T>(settings: ServerConnection.ISettings, path: string[], init: RequestInit = {}): Promise<T> {
  const response = await respond(settings, path, init);
  return response.status === 204 ? (undefined as T) : response.json();
}

function post(body: unknown): RequestInit {
  return { method: 'POST', body: JSON.stringify(body) };
}

export function clusters(settings: ServerConnection.ISettings): Promise<ClusterRow[]> {
  return request(settings, ['clusters']);
}

/** Starts a cluster, which ends with the Jupyter server. */
export function startCluster(settings: ServerConnection.ISettings, order: StartOrder): Promise<{ id: string; name: string }> {
  return request(settings, ['clusters'], post(order));
}

/** Scales to a number of workers or hosts, by places of further hosts, or between bounds as the work needs. */
export function scaleCluster(settings: ServerConnection.ISettings, cluster: string, order: ScaleOrder): Promise<unknown> {
  return request(settings, ['clusters', cluster, 'scale'], post(order));
}

/** Stops a cluster for all its clients. */
export function stopCluster(settings: ServerConnection.ISettings, cluster: string): Promise<void> {
  return request(settings, ['clusters', cluster], { method: 'DELETE' });
}

export function cancelJob(settings: ServerConnection.ISettings, cluster: string, job: string): Promise<unknown> {
  return request(settings, ['clusters', cluster, 'jobs', job, 'cancel'], { method: 'POST' });
}

/** Address of the report of a job, for a tab of its own. */
export function reportUrl(settings: ServerConnection.ISettings, cluster: string, job: string): string {
  const url = URLExt.join(settings.baseUrl, 'jmars', 'clusters', encodeURIComponent(cluster), 'jobs', encodeURIComponent(job), 'report');
  return settings.appendToken && settings.token ? `${url}?token=${encodeURIComponent(settings.token)}` : url;
}

/** The run of a job as a file for `jmars.replay`, as base64 text. */
export async function replayFile(settings: ServerConnection.ISettings, cluster: string, job: string): Promise<string> {
  const response = await respond(settings, ['clusters', cluster, 'jobs', job, 'replay']);
  const bytes = new Uint8Array(await response.arrayBuffer());
  let text = '';
  for (let at = 0; at < bytes.length; at += PART) {
    text += String.fromCharCode(...bytes.subarray(at, at + PART));
  }
  return btoa(text);
}

/** What a page shows of a run, by the bytes of its file as base64 text. */
export function readReplay(settings: ServerConnection.ISettings, file: string): Promise<Saved> {
  const body = Uint8Array.from(atob(file.replace(/\s/g, '')), letter => letter.charCodeAt(0));
  return request(settings, ['replay'], { method: 'POST', body });
}

export interface Stream {
  show(job: string): void;
  close(): void;
}

/** Streams frames of `cluster`, with its time line if `history`; connects again after a loss. */
export function stream(settings: ServerConnection.ISettings, cluster: string, onFrame: (frame: StreamFrame) => void, history = false): Stream {
  let socket: WebSocket | null = null;
  let wait = RETRY.first;
  let timer = 0;
  let job = '';
  let closed = false;
  const open = () => {
    let url = URLExt.join(settings.wsUrl, 'jmars', 'stream', encodeURIComponent(cluster));
    if (settings.appendToken && settings.token) {
      url += `?token=${encodeURIComponent(settings.token)}`; // browsers cannot set a header here; Jupyter's own way
    }
    socket = new settings.WebSocket(url);
    socket.onopen = () => {
      if (history) {
        socket?.send(JSON.stringify({ history }));
      }
      if (job) {
        socket?.send(JSON.stringify({ job }));
      }
    };
    socket.onmessage = event => {
      wait = RETRY.first;
      onFrame(JSON.parse(event.data as string) as StreamFrame);
    };
    socket.onclose = event => {
      if (!closed && event.code !== 4404) {
        timer = window.setTimeout(open, wait);
        wait = Math.min(2 * wait, RETRY.most);
      }
    };
  };
  open();
  return {
    show: wanted => {
      job = wanted;
      if (socket?.readyState === 1) {
        socket.send(JSON.stringify({ job }));
      }
    },
    close: () => {
      closed = true;
      window.clearTimeout(timer);
      socket?.close();
    }
  };
}
