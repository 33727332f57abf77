import { describe, expect, it } from 'vitest';
import { stretches } from '../components/timeline';
import type { Worker } from '../api/types';
import { withFigures } from './job';

const worker = (rank: number): Worker => ({ rank, worker_id: `w-${rank}`, state: 'running', step: 5, loss: 2 });

describe('withFigures', () => {
  it('gives each worker its own last values, and never an older step', () => {
    const workers = withFigures([worker(0), worker(1), worker(2)], {
      job: 'a',
      points: [
        ['loss', 0, 6, 0.6, 600, 1.5],
        ['loss', 0, 7, 0.7, 700, 1.25],
        ['bytes_sent', 1, 4, 0.4, 400, 4096],
        ['name', 1, 4, 0.4, 400, 1],
        ['loss', null, 7, 0.7, 700, 1],
      ],
    });
    expect(workers[0]).toEqual({ ...worker(0), loss: 1.25, step: 7 });
    expect(workers[1]).toEqual({ ...worker(1), bytes_sent: 4096 });
    expect(workers[2]).toEqual(worker(2));
  });
});

describe('stretches', () => {
  const at = (second: number) => `2026-11-21T12:00:${String(second).padStart(2, '0')}Z`;
  const lengths = (started: string | null, ended: string | null, now: number) =>
    stretches({ created_at: at(0), started_at: started, ended_at: ended }, Date.parse(at(now))).map(
      ({ state, from, to }) => [state, (to - from) / 1000],
    );

  it('tells waiting from running', () => {
    expect(lengths(null, null, 4)).toEqual([['pending', 4]]);
    expect(lengths(at(3), null, 10)).toEqual([
      ['pending', 3],
      ['running', 7],
    ]);
    expect(lengths(at(3), at(5), 50)).toEqual([
      ['pending', 3],
      ['running', 2],
    ]);
    expect(lengths(null, at(5), 50)).toEqual([['pending', 5]]);
    expect(lengths(null, null, 0)).toEqual([]);
  });
});
