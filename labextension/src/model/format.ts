// Formats numbers for people. Every value is converted to a number first, so that no other text can get in.

/** Bytes: 1536 is "1.5 KiB". */
export function bytes(value: number): string {
  let size = Number(value) || 0;
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (Math.abs(size) < 1000) {
      return `${unit === 'B' || size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${unit}`;
    }
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}

/** Seconds: "0.4 s", "12 s", "3 min 5 s". */
export function seconds(value: number): string {
  const time = Math.max(0, Number(value) || 0);
  if (time < 10) {
    return `${time.toFixed(1)} s`;
  }
  return time < 60 ? `${time.toFixed(0)} s` : `${Math.floor(time / 60)} min ${Math.floor(time % 60)} s`;
}

/** Seconds on an axis that ends at `end`: "0.25 s" on a short one, else as `seconds`. */
export function tick(value: number, end: number): string {
  return end < 2 && value > 0 ? `${(Number(value) || 0).toFixed(end < 0.2 ? 3 : 2)} s` : seconds(value);
}

/** A whole number with thin groups: 12345 is "12 345". */
export function count(value: number): string {
  return String(Math.round(Number(value) || 0)).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** "1 operand", "2 operands". */
export function plural(value: number, word: string): string {
  return `${count(value)} ${word}${Number(value) === 1 ? '' : 's'}`;
}

/** Seconds that may be short: "420 µs", "35 ms", "0.84 s", else as `seconds`. */
export function fine(value: number): string {
  const time = Math.max(0, Number(value) || 0);
  if (time >= 10 || time === 0) {
    return seconds(time);
  }
  if (time < 0.001) {
    return `${(1e6 * time).toFixed(0)} µs`;
  }
  return time < 0.1 ? `${(1e3 * time).toFixed(time < 0.01 ? 1 : 0)} ms` : `${time.toFixed(2)} s`;
}

/** The difference of `value` from `from`: "+12 %", "×40" from tenfold on, "over ×1000". */
export function share(value: number, from: number): string {
  const times = Number(value) / Number(from);
  if (times >= 10) {
    return times > 1000 ? 'over ×1000' : `×${Math.round(times)}`;
  }
  const percent = Math.round(100 * (Number(value) / Number(from) - 1)) || 0;
  return `${percent < 0 ? '−' : percent ? '+' : '±'}${count(Math.abs(percent))} %`;
}
