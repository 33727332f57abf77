import type { AlignedData } from 'uplot';
import type { Bucket } from './series';

export interface DataOptions {
  /** 0 draws the values as they are; towards 1 the line is smoother and the raw one a ghost behind it. */
  smoothing: number;
  /** A log axis has no place for zero and below. */
  positiveOnly: boolean;
}

/** Columns per line in chartData(), after the x column: max, min, raw, smoothed. */
export const columnsPerLine = 4;

/**
 * What uPlot draws: the x of all lines in one sorted column, then four columns per line. A place where a line has no
 * point of its own is undefined (the line goes on), a value that is not finite is null (the line is broken).
 */
export function chartData(lines: readonly (readonly Bucket[])[], options: DataOptions): AlignedData {
  const xs = mergedX(lines);
  const columns: (number | null | undefined)[][] = [];
  for (const line of lines) {
    const max: (number | null | undefined)[] = new Array(xs.length);
    const min: (number | null | undefined)[] = new Array(xs.length);
    const raw: (number | null | undefined)[] = new Array(xs.length);
    const smooth: (number | null | undefined)[] = new Array(xs.length);
    const smoothed = ema(
      line.map((bucket) => bucket.last),
      options.smoothing,
    );
    let at = 0;
    for (const [index, bucket] of line.entries()) {
      while (xs[at]! < bucket.x) ++at;
      max[at] = shown(bucket.max, options);
      min[at] = shown(bucket.min, options);
      raw[at] = shown(bucket.last, options);
      smooth[at] = shown(smoothed[index] ?? null, options);
    }
    columns.push(max, min, raw, smooth);
  }
  return [xs, ...columns] as AlignedData;
}

function shown(value: number | null, options: DataOptions): number | null {
  return value !== null && Number.isFinite(value) && (!options.positiveOnly || value > 0) ? value : null;
}

function mergedX(lines: readonly (readonly Bucket[])[]): number[] {
  if (lines.length === 1) return lines[0]!.map((bucket) => bucket.x);
  const all = new Set<number>();
  for (const line of lines) for (const bucket of line) all.add(bucket.x);
  return [...all].sort((a, b) => a - b);
}

/**
 * Exponential moving average with the start's bias taken out, as TensorBoard and W&B draw it. Values that are missing
 * stay missing and do not count.
 */
export function ema(values: readonly (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return [...values];
  let sum = 0;
  let total = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return null;
    sum = sum * weight + (1 - weight) * value;
    total = total * weight + (1 - weight);
    return sum / total;
  });
}

/** The last value of a line that is one. */
export function lastValue(line: readonly Bucket[]): number | null {
  for (let i = line.length - 1; i >= 0; --i) {
    const value = line[i]!.last;
    if (value !== null && Number.isFinite(value)) return value;
  }
  return null;
}

/** The newest points of some lines as rows of a table, newest first: what each line has at that x, at its own place. */
export function newestRows(
  lines: readonly (readonly Bucket[])[],
  count: number,
): { x: number; buckets: (Bucket | undefined)[] }[] {
  const rows = new Map<number, (Bucket | undefined)[]>();
  for (const [index, line] of lines.entries()) {
    for (const bucket of line.slice(-count)) {
      const row = rows.get(bucket.x) ?? new Array<Bucket | undefined>(lines.length).fill(undefined);
      row[index] = bucket;
      rows.set(bucket.x, row);
    }
  }
  return [...rows]
    .sort(([a], [b]) => b - a)
    .slice(0, count)
    .map(([x, buckets]) => ({ x, buckets }));
}
