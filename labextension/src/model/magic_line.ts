// The parts of a line with %%jmars or %jmars, for the cell editor; jmars/notebook/lexer.py has the same for Pygments.
export type Kind = 'sign' | 'magic' | 'flag' | 'number' | 'comment' | 'word';

/** A part of a line: from this column, to before that one. */
export type Span = readonly [from: number, to: number, kind: Kind];

const LINE = /^\s*(?:[A-Za-z_]\w*\s*=\s*(?=%j))?(%%?)jmars(?![\w.])/; // also "cluster = %jmars connect night"
const PARTS = /#.*|--?[a-z]+(?=[\s=]|$)|\d[\w.]*(?=\s|$)|[^\s=]+/g;

/** The parts of a line; none where the line is no magic of ours. `first`: no code stands above, so %%jmars is a magic. */
export function magicSpans(line: string, first: boolean): Span[] {
  const found = LINE.exec(line);
  if (!found || (found[1] === '%%' && !first)) {
    return [];
  }
  const name = found[0].length - 'jmars'.length;
  const spans: Span[] = [
    [name - found[1].length, name, 'sign'],
    [name, found[0].length, 'magic']
  ];
  for (const part of line.slice(found[0].length).matchAll(PARTS)) {
    const from = found[0].length + part.index!;
    spans.push([from, from + part[0].length, kindOf(part[0])]);
  }
  return spans;
}

function kindOf(part: string): Kind {
  return part.startsWith('#') ? 'comment' : /^--?[a-z]/.test(part) ? 'flag' : /^\d/.test(part) ? 'number' : 'word';
}
