// What the view needs of its surroundings: a widget, the side bar or a saved output.
import { Picture } from '../model/view';

export interface Host {
  get<K extends keyof Picture>(name: K): Picture[K] | null | undefined;
  /** Calls `changed` after each change of the picture; returns a function that stops that. */
  watch(changed: () => void): () => void;
  cancel?: (job: string) => void; // absent: no Cancel button
  deaf?: () => boolean; // whether the kernel reads a click only while it waits for a job: the page has no control channel
  background?: () => void; // absent: no "To background" button
  drawn?: (hidden: boolean) => void; // called after a frame is drawn
  line?: boolean; // whether the view of a short job is a line; absent: always the full view
  gone?: () => boolean; // whether the kernel is gone; absent: the picture is saved, or comes from elsewhere
  tab?: string; // chosen last, in a host that mounts one view after another; the view writes it
  until?: number; // seconds at the end of all axes of time, of a picture that goes back in time too; absent: the axes grow
}
