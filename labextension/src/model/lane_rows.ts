// The rows of the time line, from top to bottom: a lane for each worker, and on several hosts a heading for each host.
import { Group, Groups, shortName } from './hosts';
import { Lane, Lanes, WorkerRow } from './view';

export const BUSY = 18; // pixels of calculating and storing
export const WAIT = 6; // pixels of waiting and reloading
const LANE = BUSY + WAIT + 10;
const HEADING = 18;
const STRIP = 9; // pixels of the marks of chunks that came from other hosts
const SHARE = BUSY + 8; // pixels of the lane of a closed host

/** A row: a lane, the heading of a host, or the lane of a closed host, in which all its workers are drawn as one. */
export interface LaneRow {
  top: number;
  height: number;
  name: string;
  lane?: Lane;
  heading?: Group;
  share?: { group: Group; lanes: Lane[] };
}

/** The rows with their places, in pixels from `top` on. */
export function laneRows(lanes: Lanes, workers: WorkerRow[], groups: Groups | null, top: number): LaneRow[] {
  const rows: LaneRow[] = [];
  const add = (height: number, row: Omit<LaneRow, 'top' | 'height'>) => {
    rows.push({ top, height, ...row });
    top += height;
  };
  if (!groups) {
    lanes.lanes.forEach(lane => add(LANE, { lane, name: workerName(lane, workers) }));
    return rows;
  }
  const strip = groups.listed.some(({ host }) => host.begin.length) ? STRIP : 0;
  for (const group of groups.listed) {
    add(HEADING + strip, { heading: group, name: group.host.name });
    const mine = lanes.lanes.filter(lane => group.workers.includes(lane.worker));
    if (group.open) {
      mine.forEach(lane => add(LANE, { lane, name: shortName(workers[lane.worker], group.host) }));
    } else if (mine.length) {
      add(SHARE, { share: { group, lanes: mine }, name: `${group.workers.length} workers` });
    }
  }
  return rows;
}

/** The full name of a lane's worker. */
export function workerName(lane: Lane, workers: WorkerRow[]): string {
  return workers[lane.worker]?.name ?? `worker-${Number(lane.worker)}`;
}

/** Shares of a host's workers that calculate or store in `n` equal parts of the time until `end`, from 0 to 1. */
export function busyShares(lanes: Lane[], workers: number, end: number, now: number, n: number): number[] {
  const sums: number[] = Array(n).fill(0);
  const add = (from: number, to: number, weight: number) => {
    const [first, last] = [(from / end) * n, (Math.min(to, end) / end) * n];
    for (let bin = Math.max(0, Math.floor(first)); bin < Math.min(n, last); bin++) {
      sums[bin] += weight * Math.max(0, Math.min(bin + 1, last) - Math.max(bin, first));
    }
  };
  for (const lane of lanes) {
    lane.begin.forEach((begin, i) => {
      const span = Math.max(lane.end[i] - begin, 1e-9);
      add(begin, begin + span, Math.min(1, ((lane.took[i]?.[2] || 0) + (lane.took[i]?.[3] || 0)) / span));
    });
    if (lane.open) {
      add(lane.open.begin, now, 1);
    }
  }
  return sums.map(sum => Math.min(1, sum / Math.max(1, workers)));
}
