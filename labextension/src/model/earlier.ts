// The picture of an earlier job of a cell.
import { fromJson } from './bytes';
import { EarlierJob, Picture } from './view';

/** An earlier job that the user chose; no picture where its graph is not kept. */
export interface Earlier {
  job: string;
  picture: Picture | null;
}

const decoded = new WeakMap<EarlierJob, Partial<Picture>>(); // so that the graph stays the same object and is laid out once

/** The chosen job of the cell; null for the newest job. */
export function earlier(picture: Picture, chosen: string): Earlier | null {
  if (!chosen || chosen === picture.snap?.job || !picture.snap?.parts?.some(part => part.job === chosen)) {
    return null;
  }
  const found = picture.earlier?.find(one => one.job === chosen);
  if (!found) {
    return { job: chosen, picture: null };
  }
  let data = decoded.get(found);
  if (!data) {
    decoded.set(found, (data = fromJson({ ...found })));
  }
  return { job: chosen, picture: { ...picture, ...data } };
}
