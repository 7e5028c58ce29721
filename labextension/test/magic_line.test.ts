// Parts of lines with our magics.
import { expect, test } from 'vitest';
import { magicSpans } from '../src/model/magic_line';

const parts = (line: string, first = true) => magicSpans(line, first).map(([from, to, kind]) => `${line.slice(from, to)}:${kind}`);

test('a line of %%jmars has its magic, flags, numbers, words and a comment', () => {
  expect(parts('%%jmars -w 2 --memory=2GiB --on dask://head:8786 -o job  # at night')).toEqual([
    '%%:sign', 'jmars:magic', '-w:flag', '2:number', '--memory:flag', '2GiB:number', '--on:flag', 'dask://head:8786:word', '-o:flag', 'job:word', '# at night:comment'
  ]); // prettier-ignore
  expect(parts('  %jmars connect night-2')).toEqual(['%:sign', 'jmars:magic', 'connect:word', 'night-2:word']);
  expect(parts('cluster = %jmars connect night-2')).toEqual(['%:sign', 'jmars:magic', 'connect:word', 'night-2:word']);
});

test('other lines have none', () => {
  for (const line of ['x = 5 %jmars', 'x = %%jmars', '%%jmars2 -w 2', '%%time', '%jmars.x', '', '# %%jmars']) {
    expect(parts(line)).toEqual([]);
  }
  expect(parts('%%jmars -w 2', false)).toEqual([]); // code stands above: a cell magic is none there
  expect(parts('%jmars stop', false)).toHaveLength(3);
});
