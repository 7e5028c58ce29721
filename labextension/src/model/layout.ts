// Lays out a graph: longest-path layers, then barycentre sweeps; O(sweeps * (boxes + arrows)).
// Source: Sugiyama, Tagawa and Toda (1981). Aggregated graphs may hold cycles; an arrow that would close a cycle is ignored.
import { BoxGraph } from './view';

export interface Layers {
  depth: number;
  layer: Int32Array; // per box
  place: Float64Array; // per box: 0 to 1 within its layer
  order: number[][]; // boxes of each layer in order
}

const SWEEPS = 8;

export function layered(graph: Pick<BoxGraph, 'n' | 'src' | 'dst'>): Layers {
  const { n, src, dst } = graph;
  const users: number[][] = Array.from({ length: n }, () => []);
  const inputs: number[][] = Array.from({ length: n }, () => []);
  const missing = new Int32Array(n);
  for (let e = 0; e < src.length; e++) {
    if (src[e] !== dst[e]) {
      users[src[e]].push(dst[e]);
      inputs[dst[e]].push(src[e]);
      missing[dst[e]]++;
    }
  }
  const layer = new Int32Array(n);
  const placed = new Uint8Array(n);
  const queue: number[] = [];
  const take = (box: number) => {
    placed[box] = 1;
    queue.push(box);
  };
  for (let i = 0; i < n; i++) {
    if (!missing[i]) {
      take(i);
    }
  }
  for (let k = 0, next = 0; queue.length < n || k < queue.length; k++) {
    if (k === queue.length) {
      while (placed[next]) {
        next++;
      }
      take(next); // all boxes left lie behind a cycle: enter it at its first box
    }
    for (const user of users[queue[k]]) {
      if (!placed[user]) {
        layer[user] = Math.max(layer[user], layer[queue[k]] + 1);
        if (--missing[user] === 0) {
          take(user);
        }
      }
    }
  }
  for (let i = 0; i < n; i++) {
    if (!inputs[i].length && users[i].length) {
      layer[i] = Math.max(0, Math.min(...users[i].map(user => layer[user])) - 1); // a source stands next to its user
    }
  }
  const depth = n ? layer.reduce((a, b) => Math.max(a, b), 0) + 1 : 0;
  const order: number[][] = Array.from({ length: depth }, () => []);
  for (let i = 0; i < n; i++) {
    order[layer[i]].push(i);
  }
  const place = new Float64Array(n);
  const spread = (boxes: number[]) => boxes.forEach((box, i) => (place[box] = (i + 0.5) / boxes.length));
  order.forEach(spread);
  const centre = new Float64Array(n);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    const near = down ? inputs : users;
    for (let t = 0; t < depth; t++) {
      const boxes = order[down ? t : depth - 1 - t];
      for (const box of boxes) {
        const others = near[box];
        centre[box] = others.length ? others.reduce((sum, other) => sum + place[other], 0) / others.length : place[box];
      }
      boxes.sort((a, b) => centre[a] - centre[b] || a - b);
      spread(boxes);
    }
  }
  return { depth, layer, place, order };
}
