import { describe, expect, it } from 'vitest';
import { droppedShare, mostIdle, shareOf, shareOfTime, sharesMax } from './mode';

const line = (...values: [number, number | null][]) =>
  values.map(([x, value]) => ({ x, min: value, max: value, last: value }));
const values = (points: ReturnType<typeof line>) => points.map(({ x, last }) => [x, last]);

describe('shareOf', () => {
  it('is the quotient where both were measured, and broken where it is none', () => {
    const wait = line([1, 1], [2, 3], [3, 1], [5, 2], [6, null]);
    const step = line([1, 4], [3, 0], [4, 9], [5, 8], [6, 1]);
    expect(values(shareOf(wait, step))).toEqual([
      [1, 0.25],
      [3, null],
      [5, 0.25],
    ]);
  });

  it('pairs the points of one place in their order', () => {
    expect(values(shareOf(line([1, 1], [1, 2], [2, 3]), line([1, 4], [1, 8], [2, 4])))).toEqual([
      [1, 0.25],
      [1, 0.25],
      [2, 0.75],
    ]);
  });

  it('takes the last value of a bucket, whose extremes need not belong together', () => {
    const wide = [{ x: 4, min: 0, max: 9, last: 2 }];
    expect(shareOf(wide, line([4, 4]))).toEqual([{ x: 4, min: 0.5, max: 0.5, last: 0.5 }]);
  });
});

describe('droppedShare', () => {
  it('is of all gradients that came', () => {
    expect(values(droppedShare(line([1, 0], [2, 1], [3, 5]), line([1, 0], [2, 3], [3, 15])))).toEqual([
      [1, null],
      [2, 0.25],
      [3, 0.25],
    ]);
  });
});

describe('shareOfTime', () => {
  // Ten steps of one second, then ten of which each takes three, two of them waiting.
  const wait = line([10, 0], [20, 2]);
  const step = line([10, 1], [20, 3]);

  it('counts each point for the steps that it stands for', () => {
    expect(shareOfTime(wait, step, 'step')).toBe(0.5);
    expect(shareOfTime(line([10, 0], [20, 2], [21, 2]), line([10, 1], [20, 3], [21, 3]), 'step')).toBe(22 / 43);
  });

  it('by time a longer stretch has no more steps than it has room for', () => {
    expect(shareOfTime(line([10, 0], [40, 2]), line([10, 1], [40, 3]), 'wall')).toBe(20 / (30 + 30));
  });

  it('is the same by bytes, of which most steps send none', () => {
    // Four steps by themselves, then an exchange that takes as long as they do.
    const along = (x: (step: number) => number, value: (step: number) => number) =>
      line(...[1, 2, 3, 4, 5, 6, 7, 8].map((at): [number, number] => [x(at), value(at)]));
    const waited = (at: number) => (at % 4 === 0 ? 4 : 0);
    const sent = (at: number) => 900_000 * Math.floor(at / 4);
    const share = (x: (step: number) => number, axis: 'step' | 'bytes') =>
      shareOfTime(
        along(x, waited),
        along(x, (at) => 1 + waited(at)),
        axis,
      );
    expect(share((at) => at, 'step')).toBe(0.5);
    expect(share(sent, 'bytes')).toBe(0.5);
  });

  it('is known from the first point on', () => {
    expect(shareOfTime(line([7, 1]), line([7, 4]), 'step')).toBe(0.25);
    expect(shareOfTime([], step, 'step')).toBeNull();
    expect(shareOfTime(line([1, 0]), line([1, 0]), 'step')).toBeNull();
  });
});

describe('mostIdle', () => {
  it('keeps those that wait most', () => {
    const wait = (rank: number) => (rank === 3 ? 0 : 0.5 - rank / 1e4);
    const all = Array.from({ length: sharesMax + 2 }, (_, rank) => ({ rank, compute: 0.5, wait: wait(rank) }));
    const { shares, left } = mostIdle(all);
    expect(left).toBe(2);
    const kept = all.map(({ rank }) => rank).filter((rank) => rank !== 3 && rank !== sharesMax + 1);
    expect(shares.map(({ rank }) => rank)).toEqual(kept);
  });
});
