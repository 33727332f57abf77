import type { MetricsAxis } from '../api/types';
import type { Bucket } from './series';

/** What tells how a mode trains, by rank. */
export const modeMetrics = [
  'local_steps',
  'compression_share',
  'step_seconds',
  'compute_seconds',
  'wait_seconds',
  'staleness',
  'staleness_max',
  'dropped_gradients',
  'applied_gradients',
  'consensus_distance',
] as const;

export type ModeMetric = (typeof modeMetrics)[number];

type Line = readonly Bucket[];

/** The places that both lines have: x and the last value of each there. Points of one x belong together in order. */
function* joined(a: Line, b: Line): Generator<[x: number, a: number, b: number]> {
  let at = 0;
  for (const { x, last } of a) {
    while (at < b.length && b[at]!.x < x) ++at;
    const other = b[at];
    if (other?.x !== x) continue;
    ++at;
    if (last !== null && other.last !== null) yield [x, last, other.last];
  }
}

/** One line made of two that were measured together. Where a bucket holds several points, of the last of them. */
function combined(a: Line, b: Line, of: (a: number, b: number) => number | null): Bucket[] {
  return [...joined(a, b)].map(([x, first, second]) => {
    const value = of(first, second);
    return { x, min: value, max: value, last: value };
  });
}

/** The share that one line is of another. */
export function shareOf(part: Line, whole: Line): Bucket[] {
  return combined(part, whole, (a, b) => (b > 0 ? a / b : null));
}

/** The share of gradients that were dropped, of all that have come. Both are counts since the start. */
export function droppedShare(dropped: Line, applied: Line): Bucket[] {
  return combined(dropped, applied, (a, b) => (a + b > 0 ? a / (a + b) : null));
}

/**
 * Which share of the time of all shown steps a phase has taken: `part` of `step`, both in seconds per step, each point
 * for the steps since the one before it. Bytes do not tell how many these are, since steps may send nothing: by bytes
 * each point counts alike. Null if there is none.
 */
export function shareOfTime(part: Line, step: Line, axis: MetricsAxis): number | null {
  const points = [...joined(part, step)];
  let sum = 0;
  let all = 0;
  for (const [index, [x, seconds, whole]] of points.entries()) {
    // Nobody knows where the first stretch begins: it counts like the second.
    const gap = (index > 0 ? x - points[index - 1]![0] : (points[1]?.[0] ?? x + 1) - x) || 1;
    const steps = axis === 'bytes' ? 1 : axis === 'wall' && whole > 0 ? gap / whole : gap;
    sum += steps * seconds;
    all += steps * whole;
  }
  return all > 0 ? sum / all : null;
}

/** How one worker spends its time. */
export interface TimeShares {
  rank: number;
  compute: number;
  wait: number;
}

/** More cannot be compared at a glance. */
export const sharesMax = 64;

/** Those that wait most, in the order of their ranks, and how many are left out. */
export function mostIdle(all: readonly TimeShares[]): { shares: TimeShares[]; left: number } {
  const shares = [...all]
    .sort((a, b) => b.wait - a.wait)
    .slice(0, sharesMax)
    .sort((a, b) => a.rank - b.rank);
  return { shares, left: all.length - shares.length };
}
