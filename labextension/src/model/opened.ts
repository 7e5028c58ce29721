// What a user has opened in the view of a job, kept in the page. When a job ends, the saved view takes the place of the
// live one; it comes from a bundle of its own, so what both know is kept with the page and not in a module.

/** What was chosen in one view. */
export interface Opened {
  tab: string;
  byWorker: boolean;
  worker: number;
  box: { side: string; at: number } | null; // of a large graph, that is open
}

const MOST = 100; // jobs of which it is kept
const KEY = Symbol.for('jmars.opened');
type Kept = { [KEY]?: Map<string, Opened> };

function kept(): Map<string, Opened> {
  const page = globalThis as Kept;
  return (page[KEY] ??= new Map());
}

/** What was opened of a job last; undefined where nothing was. */
export function opened(job: string): Opened | undefined {
  return kept().get(job);
}

/** Keep what is opened of a job; the oldest is forgotten where there are many. */
export function remember(job: string, what: Opened): void {
  const all = kept();
  all.delete(job);
  all.set(job, what);
  for (const [old] of all) {
    if (all.size <= MOST) {
      break;
    }
    all.delete(old);
  }
}
