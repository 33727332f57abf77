import { describe, expect, it } from 'vitest';
import type { Job, Role, Trace } from '../api/types';
import {
  byteRows,
  candidateRows,
  matrixMax,
  matrixOf,
  ranksWithBuckets,
  readableTraffic,
  routeRows,
  secondsOf,
  stepOf,
} from './traffic';

describe('matrixOf', () => {
  it('has what each has sent to each, and nothing on the diagonal', () => {
    const { ranks, cells, most } = matrixOf({
      links: [
        { from: 10, to: 2, bytes_sent: 5, bytes_received: 4 },
        { from: 2, to: 10, bytes_sent: 70, bytes_received: 70 },
        { from: 0, to: 2, bytes_sent: null, bytes_received: 9 },
      ],
    });
    expect(ranks).toEqual([0, 2, 10]);
    expect(cells).toEqual([
      [null, 9, null],
      [null, null, 70],
      [null, 5, null],
    ]);
    expect(most).toBe(70);
  });

  it('has the busiest of many workers', () => {
    const links = Array.from({ length: 100 }, (_, from) => ({
      from,
      to: (from + 1) % 100,
      bytes_sent: from,
      bytes_received: from,
    }));
    const { ranks, cells, left } = matrixOf({ links });
    expect(ranks).toHaveLength(matrixMax);
    expect(left).toBe(100 - matrixMax);
    expect(ranks.slice(0, 3)).toEqual([0, 37, 38]); // 0 has what 99 sends
    expect(ranks.at(-1)).toBe(99);
    expect(cells[1]![2]).toBe(37);
  });

  it('is empty without links', () => {
    expect(matrixOf({ links: [] })).toEqual({ ranks: [], cells: [], most: 0, left: 0 });
  });
});

describe('readableTraffic', () => {
  const job = (mode: string | undefined, ...roles: Role[]) =>
    ({ spec: { training: { mode } }, workers: roles.map((role, rank) => ({ rank, role })) }) as unknown as Job;

  it('has steps where workers exchange buckets', () => {
    expect(readableTraffic(job('sync', 'worker', 'worker'))).toBe('steps');
    expect(readableTraffic(job('esync', 'worker', 'state_server'))).toBe('steps');
    expect(readableTraffic(job(undefined, 'worker'))).toBe('steps');
    expect(readableTraffic({ spec: {} } as Job)).toBe('steps'); // no process has started
  });

  it('has totals only where they push to servers', () => {
    for (const mode of ['async', 'ssp', 'backup']) {
      expect(readableTraffic(job(mode, 'worker', 'server', 'server'))).toBe('totals');
    }
  });

  it('is nothing where one worker trains by itself', () => {
    expect(readableTraffic(job('local', 'worker'))).toBe('nothing');
    expect(readableTraffic(job('local'))).toBe('nothing');
  });
});

describe('ranksWithBuckets', () => {
  const traffic = { workers: [{ worker: 0 }, { worker: 1 }, { worker: 2 }] };
  const job = (last: 'worker' | 'server' | 'state_server') => [
    { rank: 0, role: 'worker' as const },
    { rank: 1, role: 'worker' as const },
    { rank: 2, role: last },
  ];

  it('are those that train', () => {
    expect(ranksWithBuckets(traffic, job('worker'))).toEqual([0, 1, 2]);
    expect(ranksWithBuckets(traffic, job('state_server'))).toEqual([0, 1]);
    expect(ranksWithBuckets(traffic, [])).toEqual([0, 1, 2]);
  });

  it('are none where workers push to servers', () => {
    expect(ranksWithBuckets(traffic, job('server'))).toEqual([]);
  });
});

describe('rows with bars', () => {
  it('have the bytes of both directions in one bar', () => {
    expect(byteRows([{ name: 'dense', bytes_sent: 1500, bytes_received: 500 }])).toEqual([
      { name: 'dense', bars: [2000], cells: ['1.5 kB', '500 B'] },
    ]);
  });

  it('have the buckets that travel alike', () => {
    expect(routeRows({ routes: [{ form: 'coded', topology: 'ring', buckets: 9, bytes: 36_100_000 }] })).toEqual([
      { name: 'coded over ring', bars: [36_100_000], cells: ['9', '36.1 MB'] },
    ]);
  });

  it('have the predicted time of a step beside the measured one, and mark what is followed', () => {
    const candidate = { routes: 'coded over ring, 9 buckets', predicted_seconds: 0.15, followed: false };
    const rows = candidateRows({
      candidates: [
        { ...candidate, measured_seconds: null },
        { ...candidate, measured_seconds: 0.152, followed: true },
      ],
    });
    expect(rows[0]).toEqual({ name: candidate.routes, bars: [0.15, 0], cells: ['150 ms', '–'] });
    expect(rows[1]).toEqual({
      name: candidate.routes,
      bars: [0.15, 0.152],
      cells: ['150 ms', '152 ms'],
      mark: 'followed',
    });
  });
});

const trace: Trace = {
  displayTimeUnit: 'ms',
  otherData: { job: 'a', steps: [{ worker: 1, step: 64, seconds: 0.25, dropped: 3 }] },
  traceEvents: [
    { ph: 'M', name: 'process_name', pid: 2, tid: 1, args: { name: 'worker 1' } },
    {
      ph: 'X',
      name: 'wire bucket 1, pass 1',
      cat: 'wire',
      pid: 2,
      tid: 2,
      ts: 5000,
      dur: 500,
      args: { bucket: 1, step: 64, part: 'pass 1', bytes_sent: 90, bytes_received: 54 },
    },
    { ph: 'b', name: 'bucket 1 waits', cat: 'wait', pid: 2, tid: 2, id: '2.1', ts: 4000, args: { bucket: 1 } },
    { ph: 'b', name: 'bucket 0 waits', cat: 'wait', pid: 2, tid: 2, id: '2.0', ts: 1000, args: { bucket: 0 } },
    { ph: 'e', name: 'bucket 1 waits', cat: 'wait', pid: 2, tid: 2, id: '2.1', ts: 5000 },
    { ph: 'e', name: 'bucket 0 waits', cat: 'wait', pid: 2, tid: 2, id: '2.0', ts: 1250 },
    { ph: 'X', name: 'of another', cat: 'wire', pid: 1, tid: 2, ts: 0, dur: 9, args: { bucket: 7 } },
  ],
};

describe('stepOf', () => {
  it("has a row for each of the worker's buckets, in order of time", () => {
    const found = stepOf(trace, 1)!;
    expect([found.step, found.seconds, found.dropped]).toEqual([64, 0.25, 3]);
    expect(found.buckets.map(({ bucket }) => bucket)).toEqual([0, 1]);
    expect(found.buckets[0]!.spans).toEqual([
      { activity: 'wait', part: '', begin: 0.001, seconds: 0.00025, sent: 0, received: 0 },
    ]);
    const [wait, wire] = found.buckets[1]!.spans;
    expect(wait).toMatchObject({ activity: 'wait', begin: 0.004, seconds: 0.001 });
    expect(wire).toEqual({ activity: 'wire', part: 'pass 1', begin: 0.005, seconds: 0.0005, sent: 90, received: 54 });
    expect(secondsOf(found.buckets[1]!.spans, 'wire')).toBe(0.0005);
    expect(secondsOf(found.buckets[1]!.spans, 'decode')).toBe(0);
  });

  it('is null for a worker that the trace lacks', () => {
    expect(stepOf(trace, 0)).toBeNull();
  });
});
