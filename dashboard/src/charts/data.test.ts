import { describe, expect, it } from 'vitest';
import { chartData, ema, lastValue, newestRows } from './data';
import { halved, Series } from './series';

const points = (...values: [number, number | null][]) =>
  values.map(([x, value]) => ({ x, min: value, max: value, last: value }));

describe('Series', () => {
  it('appends only what is new', () => {
    const series = new Series(() => 1000);
    series.setHistory([
      [1, 0, 3, 2],
      [2, 1, 5, 4],
    ]);
    expect(series.append(2, 9)).toBe(false);
    expect(series.append(3, 6)).toBe(true);
    expect(series.points.map(({ x, last }) => [x, last])).toEqual([
      [1, 2],
      [2, 4],
      [3, 6],
    ]);
  });

  it('where x may stand still, takes live points of one x, but none that the history may have', () => {
    const series = new Series(() => 1000);
    const xs = () => series.points.map(({ x }) => x);
    series.setHistory([[1, 0, 0, 0]]);
    expect(series.append(1, 5, true)).toBe(false);
    for (const x of [2, 2, 2, 3]) series.append(x, 5, true);
    expect(series.append(3, 5)).toBe(false);
    expect(xs()).toEqual([1, 2, 2, 2, 3]);
    series.setHistory([
      [2, 5, 5, 5],
      [3, 5, 5, 5],
    ]);
    expect(series.append(3, 5, true)).toBe(false);
    expect(xs()).toEqual([2, 3]);
  });

  it('keeps live points that came while the history was read', () => {
    const series = new Series(() => 1000);
    series.append(5, 50);
    series.append(6, 60);
    series.setHistory([
      [4, 40, 40, 40],
      [5, 50, 50, 50],
    ]);
    expect(series.points.map(({ x }) => x)).toEqual([4, 5, 6]);
  });

  it('stays within its bound and keeps every extreme', () => {
    const series = new Series(() => 100);
    for (let step = 1; step <= 10_000; ++step) series.append(step, step === 5000 ? 1e6 : step === 7001 ? -1e6 : 0);
    expect(series.points.length).toBeLessThanOrEqual(200);
    expect(Math.max(...series.points.map(({ max }) => max ?? 0))).toBe(1e6);
    expect(Math.min(...series.points.map(({ min }) => min ?? 0))).toBe(-1e6);
    expect(series.points.at(-1)?.x).toBe(10_000);
  });

  it('joins neighbours around missing values', () => {
    const joined = halved(points([1, null], [2, 7], [3, null], [4, null], [5, 1]));
    expect(joined).toEqual([
      { x: 2, min: 7, max: 7, last: 7 },
      { x: 4, min: null, max: null, last: null },
      { x: 5, min: 1, max: 1, last: 1 },
    ]);
  });
});

describe('chartData', () => {
  const plain = { smoothing: 0, positiveOnly: false };

  it('puts lines of different x on one axis: undefined where a line has no point, null where it is not finite', () => {
    const data = chartData([points([1, 10], [3, 30]), points([2, NaN], [3, 5])], plain);
    expect(data[0]).toEqual([1, 2, 3]);
    expect(data).toHaveLength(1 + 2 * 4);
    expect([...data[4]!]).toEqual([10, undefined, 30]);
    expect([...data[8]!]).toEqual([undefined, null, 5]);
  });

  it('leaves out what a log axis cannot show', () => {
    expect([...chartData([points([1, 0], [2, -1], [3, 2])], { ...plain, positiveOnly: true })[4]!]).toEqual([
      null,
      null,
      2,
    ]);
  });

  it('keeps the raw line beside the smoothed one', () => {
    const data = chartData([points([1, 0], [2, 10])], { smoothing: 0.9, positiveOnly: false });
    expect([...data[3]!]).toEqual([0, 10]);
    expect(data[4]![1]).toBeCloseTo(10 / 1.9, 6);
  });

  it('is empty without points', () => {
    expect(chartData([[]], plain)[0]).toEqual([]);
    expect(lastValue([])).toBeNull();
    expect(lastValue(points([1, 4], [2, null]))).toBe(4);
  });
});

describe('ema', () => {
  it('is exact for a constant from the first value on, and skips what is missing', () => {
    expect(ema([3, null, 3, 3], 0.95)).toEqual([3, null, expect.closeTo(3, 9), expect.closeTo(3, 9)]);
  });
});

describe('newestRows', () => {
  it('keeps each value at its line and its x', () => {
    const rows = newestRows([points([1, 10], [3, 30], [4, 40]), points([2, 5], [3, 6])], 3);
    expect(rows.map(({ x, buckets }) => [x, ...buckets.map((bucket) => bucket?.last)])).toEqual([
      [4, 40, undefined],
      [3, 30, 6],
      [2, undefined, 5],
    ]);
  });
});
