// Imports only go down: lab, widgets, draw, model; and no text is ever parsed as HTML.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const FLOORS = ['model', 'draw', 'widgets', 'lab'];
const SRC = join(__dirname, '..', 'src');
const files = FLOORS.flatMap(floor => readdirSync(join(SRC, floor)).map(name => [floor, name] as const));

test.each(files)('%s/%s imports only from its floor and below', (floor, name) => {
  const text = readFileSync(join(SRC, floor, name), 'utf8');
  for (const [, from] of text.matchAll(/from '(\.[^']+)'/g)) {
    const other = from.startsWith('./') ? floor : from.split('/')[1];
    expect(FLOORS.indexOf(other), from).toBeGreaterThanOrEqual(0);
    expect(FLOORS.indexOf(other), from).toBeLessThanOrEqual(FLOORS.indexOf(floor));
  }
  if (floor !== 'lab') {
    expect(text).not.toMatch(/from '@/);
  }
  expect(text).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\(|new Function/);
});
