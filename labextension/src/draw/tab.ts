// What a tab of the view is: a file of its own exports one, and draw/tabs.ts lists them.
import { Groups } from '../model/hosts';
import { Side } from '../model/picture';
import { ViewChoices } from '../model/remembered';
import { Picture } from '../model/view';
import { Palette } from './graph';
import { Host } from './host';
import { Spot } from './navigation';

/** What the tabs of a view read and change together. */
export interface Shared {
  host: Host;
  choices: ViewChoices; // kept in the page by `keep`
  focus: number[]; // rows of the lines whose operands are marked
  selection: (Spot & { side: Side }) | null; // a box of the graph
  colours(): Palette;
  shown(): Picture; // of the job whose graph is drawn
  groups(picture: Picture): Groups | null; // hosts, opened and closed as in `choices`
  draw(): void;
  keep(): void;
  setFocus(rows: number[]): void; // of rows that are marked already: marks none
  open(name: string): void; // another tab
}

export interface Tab {
  name: string; // in ids and class names
  word: string; // on the button
  more?: string; // after the word where there is room
  ofCell?: boolean; // about all jobs of the cell; absent: about one job
  waits?: boolean; // whether the last graph stays while the next job of the cell is being prepared
  /** Fills the panel once; returns what draws a picture into it. `live`: whether the newest job runs. */
  make(panel: HTMLElement, view: Shared): (picture: Picture, live: boolean) => void;
}
