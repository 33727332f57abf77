/** A place of an axis that is named, and how far apart such places are there: what its name must tell. */
export interface Tick {
  at: number;
  step: number;
}

/** Of an even axis: the multiples of the smallest increment (ascending) of which there are at most `most`. */
export function evenTicks(low: number, high: number, increments: readonly number[], most: number): Tick[] {
  const step = increments.find((value) => (high - low) / value <= most) ?? high - low;
  const first = Math.ceil(low / step);
  const count = Math.floor(high / step) - first + 1;
  return Array.from({ length: count }, (_, index) => ({ at: (first + index) * step, step }));
}

/** Of a log axis: at most `most` of the increments themselves, or, where hardly any lies there, multiples of one. */
export function logTicks(low: number, high: number, increments: readonly number[], most: number): Tick[] {
  const inside = increments.filter((value) => value >= low && value <= high);
  if (inside.length < 2) return evenTicks(low, high, increments, most);
  const every = Math.ceil(inside.length / most);
  return inside.filter((_, index) => index % every === 0).map((at) => ({ at, step: at }));
}
