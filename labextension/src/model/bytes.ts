// The bytes of a picture: views of them, and base64 text in JSON.
import { BYTES, Picture } from './view';

/** The bytes of a trait; empty if there are none. */
export function asBytes(value: DataView | null | undefined): Uint8Array {
  return value && value.byteLength ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : new Uint8Array();
}

/** Decodes a picture, or a part of a picture, from JSON, where bytes are base64 text. */
export function fromJson(json: Record<string, unknown>): Partial<Picture> {
  const picture: Record<string, unknown> = { ...json };
  for (const name of BYTES) {
    if (typeof picture[name] === 'string') {
      const text = atob(picture[name] as string);
      picture[name] = new DataView(Uint8Array.from(text, c => c.charCodeAt(0)).buffer);
    }
  }
  return picture as Partial<Picture>;
}
