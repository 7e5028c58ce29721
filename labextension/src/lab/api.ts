// Client of the Jupyter server extension: REST and stream. The browser never sees the address or token of a cluster.
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

export interface JobRow {
  id: string;
  name: string;
  state: string;
  elapsed: number;
}

export interface ClusterRow {
  id: string;
  name: string;
  alive: boolean;
  workers: number;
  hosts: number; // 0 for a cluster that is not one of several hosts
  jobs: JobRow[];
  error?: string;
}

/** A message of the stream: the jobs of the cluster, and changed traits of the shown job's picture. */
export interface StreamFrame {
  jobs?: JobRow[];
  job?: string;
  picture?: Record<string, unknown>;
  error?: string;
}

const RETRY = { first: 500, most: 10000 }; // ms

async function request<T>(settings: ServerConnection.ISettings, path: string[], init: RequestInit = {}): Promise<T> {
  const url = URLExt.join(settings.baseUrl, 'jmars', ...path.map(encodeURIComponent));
  const response = await ServerConnection.makeRequest(url, init, settings);
  if (!response.ok) {
    throw new ServerConnection.ResponseError(response);
  }
  return response.json();
}

export function clusters(settings: ServerConnection.ISettings): Promise<ClusterRow[]> {
  return request(settings, ['clusters']);
}

export function cancelJob(settings: ServerConnection.ISettings, cluster: string, job: string): Promise<unknown> {
  return request(settings, ['clusters', cluster, 'jobs', job, 'cancel'], { method: 'POST' });
}

export interface Stream {
  show(job: string): void;
  close(): void;
}

/** Streams frames of `cluster`; connects again after a loss. */
export function stream(settings: ServerConnection.ISettings, cluster: string, onFrame: (frame: StreamFrame) => void): Stream {
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
