// Navigates a graph by mouse and arrow keys: selects a box, and opens a box of an aggregated graph to its operands.
import { boxAt, Geometry, markAt, markBeside, neighbour } from '../model/geometry';
import { placeOf } from './graph';

/** The selection: a box, or a mark of the open box. */
export interface Spot {
  at: number;
  mark: number; // -1: the box itself
}

/** The state that navigation reads and changes. */
export interface Navigated {
  spot: () => Spot | null;
  select: (spot: Spot | null) => void;
  open: (at: number) => void; // -1: close
  opens: (at: number) => boolean;
  name: (spot: Spot) => string;
}

export const CHEVRON = 20; // pixels at the left of a box that open it
const KEYS = ['Arrow', 'Home', 'End', 'Escape', 'Enter', ' ']; // kept from the notebook, which uses them too

export function navigate(canvas: HTMLCanvasElement, walker: Navigated): void {
  const under = (event: MouseEvent): Spot | null => {
    const place = placeOf(canvas);
    const at = place ? boxAt(place, event.offsetX, event.offsetY) : -1;
    const mark = place?.opened && place.opened.box === at ? markAt(place.opened, event.offsetX, event.offsetY) : -1;
    return at < 0 ? null : { at, mark };
  };
  const toggle = (at: number) => {
    if (walker.opens(at)) {
      walker.open(placeOf(canvas)?.opened?.box === at ? -1 : at);
    }
  };
  canvas.addEventListener('click', event => {
    const spot = under(event);
    walker.select(spot);
    const place = placeOf(canvas);
    if (spot && place?.named && spot.mark < 0 && event.detail < 2 && event.offsetX - place.x[spot.at] < CHEVRON) {
      toggle(spot.at);
    }
  });
  canvas.addEventListener('dblclick', event => {
    const spot = under(event);
    const place = placeOf(canvas);
    if (spot && spot.mark < 0 && place && event.offsetX - place.x[spot.at] >= CHEVRON) {
      toggle(spot.at);
    }
  });
  canvas.addEventListener('mousemove', event => {
    const spot = under(event);
    canvas.style.cursor = spot ? 'pointer' : 'default';
    canvas.title = spot ? walker.name(spot) : '';
  });
  canvas.addEventListener('keydown', event => {
    const place = placeOf(canvas);
    const spot = walker.spot();
    if (place && KEYS.some(key => event.key.startsWith(key))) {
      event.stopPropagation();
      if (press(place, spot, event.key)) {
        event.preventDefault();
        show(canvas, walker.spot());
      }
    }
  });

  /** Handles a key; false if the key has no meaning here. */
  function press(place: Geometry, spot: Spot | null, key: string): boolean {
    const inside = spot && spot.mark >= 0 && place.opened ? place.opened : null;
    if (key === 'Enter' || key === ' ') {
      if (spot && walker.opens(spot.at)) {
        const close = place.opened?.box === spot.at;
        walker.open(close ? -1 : spot.at);
        walker.select({ at: spot.at, mark: close ? -1 : 0 });
        return true;
      }
      return false;
    }
    if (key === 'Escape') {
      if (inside) {
        walker.open(-1);
      }
      walker.select(inside && spot ? { at: spot.at, mark: -1 } : null);
      return spot !== null;
    }
    const to = inside && spot ? markBeside(inside, spot.mark, key) : neighbour(place, spot?.at ?? -1, key);
    if (to >= 0) {
      walker.select(inside && spot ? { at: spot.at, mark: to } : { at: to, mark: -1 });
    }
    return to >= 0;
  }
}

/** Scrolls to the selection. */
function show(canvas: HTMLCanvasElement, spot: Spot | null): void {
  const place = placeOf(canvas);
  const box = canvas.parentElement;
  if (spot && place?.named && box) {
    const marks = spot.mark >= 0 ? place.opened : null;
    const top = marks ? marks.top + Math.floor(spot.mark / marks.columns) * marks.pitch : place.y[spot.at];
    const high = marks ? marks.pitch : Math.min(place.h[spot.at], 60);
    box.scrollTop = Math.min(Math.max(box.scrollTop, top + high - box.clientHeight + 8), top - 8);
  }
}
