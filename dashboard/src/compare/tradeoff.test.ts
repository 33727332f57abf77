import { describe, expect, it } from 'vitest';
import type { Job } from '../api/types';
import { shareIncrements, timeIncrements, wholeIncrements } from '../charts/increments';
import { namesPlaced } from './names_placed';
import { front } from './pareto';
import { evenTicks, logTicks, type Tick } from './ticks';
import { tradeoffOf } from './tradeoff';

const places = (...of: [cost: number, gain: number][]) => of.map(([cost, gain]) => ({ cost, gain }));

describe('front', () => {
  it('has who is beaten by nobody in one thing without being better in the other, the cheapest first', () => {
    expect(front(places([10, 0.9], [1, 0.5], [5, 0.8], [6, 0.7], [20, 0.9]))).toEqual([1, 2, 0]);
  });

  it('leaves out who costs as much for less, and who gains as much for more', () => {
    expect(front(places([1, 0.5], [1, 0.6], [2, 0.6]))).toEqual([1]);
  });

  it('has twins both, and anybody who is alone', () => {
    expect(front(places([1, 0.5], [1, 0.5], [3, 0.4]))).toEqual([0, 1]);
    expect(front(places([7, 0.1]))).toEqual([0]);
    expect(front([])).toEqual([]);
  });

  it('is what a comparison of each with each gives', () => {
    const all = places(...Array.from({ length: 60 }, (_, i): [number, number] => [(i * 37) % 11, (i * 53) % 7]));
    const beaten = (i: number) =>
      all.some(({ cost, gain }) => {
        const { cost: other, gain: less } = all[i]!;
        return cost <= other && gain >= less && (cost < other || gain > less);
      });
    expect(front(all).sort((a, b) => a - b)).toEqual(all.map((_, i) => i).filter((i) => !beaten(i)));
  });
});

describe('tradeoffOf', () => {
  const entry = (id: string, more: Partial<Job>) => ({
    job: { id, state: 'SUCCEEDED', started_at: null, ended_at: null, summary: {}, ...more } as Job,
    label: id,
    style: 0,
  });
  const entries = [
    entry('good', { summary: { accuracy: 0.9, bytes_sent: 100 } }),
    entry('going on', { summary: { accuracy: 0.95, bytes_sent: 10 }, state: 'RUNNING' }),
    entry('alone', { summary: { accuracy: 0.9, bytes_sent: 0 } }),
    entry('waiting', { state: 'PENDING' }),
    entry('timed', {
      summary: { accuracy: 0.5 },
      started_at: '2026-01-01T00:00:00Z',
      ended_at: '2026-01-01T00:00:30Z',
    }),
  ];

  it('names who has no place, and holds what is not final against nobody', () => {
    const { spots, front: best, left } = tradeoffOf(entries, 'bytes', 0);
    expect(spots.map(({ label, ended }) => [label, ended])).toEqual([
      ['good', true],
      ['going on', false],
    ]);
    expect(best.map(({ label }) => label)).toEqual(['good']);
    expect(left).toEqual([
      { label: 'alone', why: 'nothing sent' },
      { label: 'waiting', why: 'no accuracy' },
      { label: 'timed', why: 'nothing sent' },
    ]);
  });

  it('by time: from start to end', () => {
    expect(tradeoffOf(entries, 'seconds', 0).spots.map(({ label, cost }) => [label, cost])).toEqual([['timed', 30]]);
  });
});

describe('ticks', () => {
  const valuesOf = (ticks: Tick[]) => ticks.map(({ at }) => Number(at.toFixed(6)));

  it('of a log axis are round values, and no more than there is room for', () => {
    const at = (...of: Parameters<typeof logTicks>) => valuesOf(logTicks(...of));
    expect(at(3e6, 2.5e8, wholeIncrements, 6)).toEqual([5e6, 1e7, 2e7, 5e7, 1e8, 2e8]);
    expect(at(1, 1e9, wholeIncrements, 6).length).toBeLessThanOrEqual(6);
    expect(at(20, 400, timeIncrements, 8)).toEqual([30, 60, 120, 300]);
    expect(at(290, 490, timeIncrements, 6), 'hardly any lies there').toEqual([300, 360, 420, 480]);
    expect(at(4_960_000, 4_990_000, wholeIncrements, 4)).toEqual([4_960_000, 4_970_000, 4_980_000, 4_990_000]);
  });

  it('of an even axis are evenly spaced', () => {
    const at = (...of: Parameters<typeof evenTicks>) => valuesOf(evenTicks(...of));
    expect(at(0.881, 0.902, shareIncrements, 6)).toEqual([0.885, 0.89, 0.895, 0.9]);
    expect(at(-0.1, 1, shareIncrements, 6)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
  });
});

describe('namesPlaced', () => {
  it('puts names on the side with more room, and none over another', () => {
    const points = [
      { x: 100, y: 50, text: 'one' },
      { x: 104, y: 52, text: 'two' },
      { x: 500, y: 51, text: 'three' },
      { x: 102, y: 51, text: 'four' },
    ];
    const names = namesPlaced(points, 600);
    expect(names.map(({ anchor }) => anchor)).toEqual(['start', 'start', 'end', 'start']);
    expect(names[2]!.y).toBe(51);
    const lines = [names[0]!.y, names[1]!.y, names[3]!.y].sort((a, b) => a - b);
    expect(lines[1]! - lines[0]!).toBeGreaterThanOrEqual(14);
    expect(lines[2]! - lines[1]!).toBeGreaterThanOrEqual(14);
  });
});
