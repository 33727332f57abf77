import { describe, expect, it } from 'vitest';
import type { CatalogEntry } from '../api/types';
import { rankNames } from '../ranks';
import { modeCharts, type ModeSeries } from './mode_charts';
import { linesMax } from './palette';

const mode = (exchanges: NonNullable<CatalogEntry['exchanges']>, roles?: CatalogEntry['roles']): CatalogEntry => ({
  name: 'a mode',
  summary: '',
  params: {},
  exchanges,
  ...(roles && { roles }),
});
const servers = mode('pushes', { server: { count: 'servers' } });

/** Two workers and a server, each with points (1, v) and (2, v) of the metrics that are named, by rank. */
function series(values: Record<string, number>, workers = [0, 1], servers = [workers.length]): ModeSeries {
  const roles = servers.map((rank) => ({ rank, role: 'server' as const }));
  const line = (name: string, rank: number | null) => {
    const value = values[`${name}/${rank}`];
    return { points: value === undefined ? [] : [1, 2].map((x) => ({ x, min: value, max: value, last: value })) };
  };
  return { line, workers, servers, nameOf: rankNames(roles) };
}
const ids = (...of: Parameters<typeof modeCharts>) => modeCharts(...of).map(({ id }) => id);
const drawn = (id: string, ...of: Parameters<typeof modeCharts>) =>
  modeCharts(...of)
    .find((chart) => chart.id === id)!
    .drawn.map(({ label, series: { points } }) => [label, points.map(({ last }) => last)]);

describe('modeCharts', () => {
  it('are those that the mode is about, before anything was measured', () => {
    expect(ids(mode('gradients'), series({}))).toEqual(['idle']);
    expect(ids(mode('differences'), series({}))).toEqual(['idle', 'local_steps']);
    expect(ids(mode('models'), series({}))).toEqual(['idle', 'consensus']);
    expect(ids(servers, series({}))).toEqual(['idle', 'staleness', 'dropped', 'dropped_share']);
    for (const chart of modeCharts(servers, series({}))) {
      expect(chart.drawn).toEqual([]);
      expect(chart.none).not.toBe('');
    }
  });

  it('and those of which there are values that say something, whatever the mode', () => {
    expect(ids(mode('gradients'), series({ 'local_steps/0': 8 }))).toEqual(['idle', 'local_steps']);
    expect(ids(mode('gradients'), series({ 'local_steps/0': 1 }))).toEqual(['idle']);
    expect(ids(mode('differences'), series({ 'compression_share/0': 1 }))).toEqual(['idle', 'local_steps']);
    expect(ids(mode('differences'), series({ 'compression_share/0': 0.5 }))).toContain('compression_share');
    expect(ids(null, series({ 'consensus_distance/null': 0.5 }))).toEqual(['consensus']);
    expect(ids(null, series({}))).toEqual([]);
  });

  it('draw one line per rank that has points', () => {
    const times = { 'wait_seconds/1': 1, 'step_seconds/1': 4, 'wait_seconds/0': 1 };
    expect(drawn('idle', mode('gradients'), series(times))).toEqual([['rank 1', [0.25, 0.25]]]);
    const many = Array.from({ length: 20 }, (_, rank) => rank);
    const steps = Object.fromEntries(many.map((rank) => [`local_steps/${rank}`, rank]));
    expect(drawn('local_steps', mode('differences'), series(steps, many))).toHaveLength(linesMax);
  });

  it('say of how many they have a line, each for itself', () => {
    const notes = (workers: number, of: number) => {
      const ranks = Array.from({ length: workers + of }, (_, rank) => rank);
      return modeCharts(servers, series({}, ranks.slice(0, workers), ranks.slice(workers))).map(({ note }) => note);
    };
    expect(notes(8, 4)).toEqual(['', '', '', '']);
    expect(notes(64, 5)).toEqual(['the first 8 of 64', 'the first 4 of 5', '', '']);
    expect(notes(2, 1200)[2]).toBe('the first 8 of 1,200');
  });

  it('name servers, and tell mean and max of their staleness', () => {
    const values = {
      'staleness/2': 1.5,
      'staleness_max/2': 4,
      'dropped_gradients/2': 1,
      'applied_gradients/2': 3,
      'wait_seconds/2': 1,
    };
    expect(drawn('staleness', servers, series(values))).toEqual([
      ['server 0 mean', [1.5, 1.5]],
      ['server 0 max', [4, 4]],
    ]);
    expect(drawn('dropped', servers, series(values))).toEqual([['server 0', [1, 1]]]);
    expect(drawn('dropped_share', servers, series(values))).toEqual([['server 0', [0.25, 0.25]]]);
  });
});
