import type { LivePoint, MetricsAxis } from '../api/types';

/** One bucket of a series: what the head answers as [x, min, max, last]. */
export interface Bucket {
  x: number;
  min: number | null;
  max: number | null;
  last: number | null;
}

/** What a chart needs of a line: its points, sorted by x. */
export interface Points {
  readonly points: readonly Bucket[];
}

/** The x of a live point on an axis. */
export function axisValue(point: LivePoint, axis: MetricsAxis): number {
  return point[axis === 'step' ? 2 : axis === 'wall' ? 3 : 4];
}

/**
 * The points of one line: a history from the head, in buckets, then live points appended one by one. When it has grown
 * to twice its bound, neighbours are joined in pairs, which keeps every extreme. Sorted by x at all times.
 */
export class Series implements Points {
  private buckets: Bucket[] = [];
  /** The last point is a live one: the history does not reach it. */
  private live = false;
  /** How many points there were when the history was last asked for: those after them may be missing in the answer. */
  private asked = 0;

  /** `bound`: how many buckets are worth keeping, at least 2. It may become smaller as there are more series. */
  constructor(private readonly bound: () => number) {}

  get points(): readonly Bucket[] {
    return this.buckets;
  }

  /** The head is being asked for the past: what is here now is no longer of use once it has answered. */
  askHistory(): void {
    this.asked = this.buckets.length;
  }

  /**
   * Takes the head's answer as the past. Live points beyond its end stay if they came after askHistory(): older ones
   * are of steps that a restarted job did not get to again.
   */
  setHistory(points: readonly (readonly (number | null)[])[]): void {
    const history: Bucket[] = [];
    for (const [x, min, max, last] of points) {
      if (x === null || x === undefined) continue;
      history.push({ x, min: min ?? null, max: max ?? null, last: last ?? null });
    }
    const end = history.at(-1)?.x ?? -Infinity;
    const beyond = this.buckets.slice(this.asked).filter((bucket) => bucket.x > end);
    this.live = beyond.length > 0;
    this.buckets = [...history, ...beyond];
    this.asked = history.length;
    this.shrink();
  }

  /**
   * Adds a live value; one that the history or an earlier record already covers is left out. `repeats`: x may stand
   * still from point to point, as bytes do.
   */
  append(x: number, value: number | null, repeats = false): boolean {
    const end = this.buckets.at(-1)?.x ?? -Infinity;
    if (x < end || (x === end && !(repeats && this.live))) return false;
    this.live = true;
    this.buckets.push({ x, min: value, max: value, last: value });
    this.shrink();
    return true;
  }

  /** Forgets x and what is beyond it: a restarted job does those steps again. */
  rewind(x: number): void {
    const end = this.buckets.findIndex((bucket) => bucket.x >= x);
    if (end < 0) return;
    this.buckets.length = end;
    this.asked = Math.min(this.asked, end);
  }

  private shrink(): void {
    const bound = this.bound();
    while (this.buckets.length > 2 * bound) {
      this.buckets = halved(this.buckets);
      this.asked = Math.floor(this.asked / 2); // a pair across the border has a point that may be missing
    }
  }
}

/** Every two neighbours as one: the later x and last, the extremes of both. */
export function halved(buckets: readonly Bucket[]): Bucket[] {
  const result: Bucket[] = [];
  for (let i = 0; i < buckets.length; i += 2) {
    const a = buckets[i]!;
    const b = buckets[i + 1];
    if (b === undefined) result.push(a);
    else
      result.push({
        x: b.x,
        min: extreme(Math.min, a.min, b.min),
        max: extreme(Math.max, a.max, b.max),
        last: b.last,
      });
  }
  return result;
}

function extreme(choose: (a: number, b: number) => number, a: number | null, b: number | null): number | null {
  if (a === null) return b;
  return b === null ? a : choose(a, b);
}
