// Remembers in the page which tab and box the user opened in a job's view. When a job ends, the saved view replaces the
// live view; it comes from a bundle of its own, so both keep the choices in the page and not in a module.

/** The user's choices in a view. */
export interface ViewChoices {
  tab: string;
  byWorker: boolean;
  worker: number;
  line?: boolean; // whether only the header is shown
  unfolded?: Record<string, boolean>; // hosts that were opened or closed
  box: { side: string; at: number } | null; // the open box of an aggregated graph
}

const MOST = 100; // jobs whose choices are kept
const KEY = Symbol.for('jmars.opened');
type Kept = { [KEY]?: Map<string, ViewChoices> };

function kept(): Map<string, ViewChoices> {
  const page = globalThis as Kept;
  return (page[KEY] ??= new Map());
}

/** The last choices in a job's view; undefined if there are none. */
export function recall(job: string): ViewChoices | undefined {
  return kept().get(job);
}

/** Keeps the choices in a job's view; beyond MOST jobs the oldest are forgotten. */
export function remember(job: string, what: ViewChoices): void {
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
