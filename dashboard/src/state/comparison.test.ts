import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Job, LivePoint } from '../api/types';
import type { Follower } from '../live/stream';
import { Comparison } from './comparison';

const job = (id: string, state: Job['state']): Job => ({
  id,
  name: id,
  state,
  phase: '',
  reason: null,
  spec: {},
  created_at: '',
  started_at: null,
  ended_at: null,
  step: 0,
  steps_total: null,
  summary: {},
});
const loss = (step: number, value: number, worker: number | null = null): LivePoint => [
  'loss',
  worker,
  step,
  step / 10,
  step * 100,
  value,
];

describe('Comparison', () => {
  let jobs: Job[];
  let asked: string[];
  let followed: Follower[];

  beforeEach(() => {
    jobs = [job('done', 'SUCCEEDED'), job('busy', 'RUNNING')];
    asked = [];
    followed = [];
    vi.stubGlobal('fetch', async (address: string) => {
      asked.push(address.replace('/api/v1/jobs/', ''));
      const [path, query] = address.slice('/api/v1/jobs/'.length).split('?');
      const found = jobs.find(({ id }) => id === path!.split('/')[0]);
      if (found === undefined) return new Response('{"title":"Not found","request_id":"req-1"}', { status: 404 });
      if (!path!.endsWith('/metrics')) return Response.json(found);
      const x = new URLSearchParams(query).get('x') ?? 'step';
      const names = new URLSearchParams(query).get('name')?.split(',') ?? ['loss', 'accuracy', 'bytes_sent'];
      return Response.json({
        job: found.id,
        x,
        series: names.map((name) => ({ name, worker: null, points: [[1, 1, 1, 1]] })),
      });
    });
  });
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  /** As the page does it: what is shown first, then the jobs, then the stream, which says at once to read. */
  function open(ids: string[]) {
    const follow = (follower: Follower) => {
      followed.push(follower);
      queueMicrotask(() => follower.fresh());
      return () => void followed.splice(followed.indexOf(follower), 1);
    };
    const comparison = new Comparison(500, follow);
    void comparison.setAxis('bytes');
    void comparison.setNames(['loss']);
    comparison.show(ids);
    return { comparison, end: comparison.begin() };
  }
  const topics = () => followed.flatMap((follower) => follower.topics).sort();
  const points = (comparison: Comparison, at: number, name = 'loss') =>
    comparison.jobs.value[at]!.series.value?.line(name, null).points.map(({ x }) => x);
  const settled = (comparison: Comparison) =>
    vi.waitFor(() => {
      for (const one of comparison.jobs.value) {
        const read = one.series.value?.history.data.value != null && one.names.value.length > 0;
        if (!one.gone.value && !read) throw new Error(`${one.id} is not read yet`);
      }
    });

  it('reads each series once, as it is shown, and follows only those that go on', async () => {
    const { comparison, end } = open(['done', 'busy']);
    await settled(comparison);
    expect(asked.filter((address) => address.includes('points=500'))).toEqual([
      'done/metrics?worker=job&x=bytes&points=500&name=loss',
      'busy/metrics?worker=job&x=bytes&points=500&name=loss',
    ]);
    expect(topics()).toEqual(['job:busy', 'jobs']);
    expect(comparison.jobs.value[0]!.names.value).toEqual(['loss', 'accuracy', 'bytes_sent']);
    const busy = followed.find((follower) => follower.topics.includes('job:busy'))!;
    const before = comparison.version.value;
    const news: LivePoint = ['new', null, 2, 0.2, 200, 1];
    busy.record('metrics', { job: 'busy', restarts: 0, points: [loss(2, 5), loss(2, 6, 1), news] });
    expect(comparison.version.value).toBeGreaterThan(before);
    expect(points(comparison, 1)).toEqual([1, 200]);
    expect(points(comparison, 1, 'new')).toEqual([]);
    expect(comparison.jobs.value[1]!.names.value).toContain('new');
    end();
    expect(topics()).toEqual([]);
  });

  it('takes what becomes of the jobs from the stream, and the end of one loses no point', async () => {
    const { comparison } = open(['done', 'busy']);
    await settled(comparison);
    comparison.record('job_end', { ...job('busy', 'SUCCEEDED'), summary: { accuracy: 0.9 } });
    comparison.record('job', job('other', 'RUNNING'));
    expect(comparison.jobs.value.map(({ present }) => present?.summary.accuracy)).toEqual([undefined, 0.9]);
    expect(topics()).toContain('job:busy');
    comparison.record('job_removed', { id: 'busy' });
    expect(comparison.jobs.value.map(({ present, gone }) => [present?.id, gone.value])).toEqual([
      ['done', false],
      [undefined, true],
    ]);
    expect(topics()).toEqual(['jobs']);
  });

  it('one that is gone is not asked for series, and the others are shown', async () => {
    const { comparison } = open(['lost', 'done']);
    await settled(comparison);
    expect(comparison.jobs.value.map(({ gone, error }) => [gone.value, error])).toEqual([
      [true, null],
      [false, null],
    ]);
    expect(asked.filter((address) => address.startsWith('lost/'))).toEqual([]);
    expect(topics()).toEqual(['jobs']);
  });

  it('other jobs: those that stay are not read again', async () => {
    const { comparison } = open(['done', 'busy']);
    await settled(comparison);
    jobs.push(job('third', 'STOPPED'));
    asked.length = 0;
    comparison.show(['third', 'done']);
    await settled(comparison);
    expect(asked.every((address) => address.startsWith('third'))).toBe(true);
    expect(topics()).toEqual(['jobs']);
    expect(points(comparison, 0)).toEqual([1]);
  });

  it('other metrics and axes are read of all of them', async () => {
    const { comparison } = open(['done', 'busy']);
    await settled(comparison);
    asked.length = 0;
    await comparison.setNames(['accuracy', 'loss']);
    await comparison.setAxis('wall');
    await comparison.setZoom({ from: 1, to: 2 });
    expect(asked).toEqual([
      'done/metrics?worker=job&x=bytes&points=500&name=accuracy%2Closs',
      'busy/metrics?worker=job&x=bytes&points=500&name=accuracy%2Closs',
      'done/metrics?worker=job&x=wall&points=500&name=accuracy%2Closs',
      'busy/metrics?worker=job&x=wall&points=500&name=accuracy%2Closs',
      'done/metrics?worker=job&x=wall&points=500&name=accuracy%2Closs&from=1&to=2',
      'busy/metrics?worker=job&x=wall&points=500&name=accuracy%2Closs&from=1&to=2',
    ]);
    await comparison.setNames(['loss']);
    expect(asked).toHaveLength(6);
    expect(points(comparison, 0, 'accuracy')).toEqual([]);
  });

  it.each(['points=500', 'from=1'])('one that is left out is not read any further: %s', async (part) => {
    const working = globalThis.fetch;
    const held: AbortSignal[] = [];
    vi.stubGlobal('fetch', (address: string, { signal }: { signal: AbortSignal }) => {
      if (!address.includes(part)) return working(address);
      held.push(signal);
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))));
    });
    const { comparison } = open(['done']);
    const zoomed = comparison.setZoom({ from: 1, to: 2 });
    await vi.waitFor(() => expect(held).toHaveLength(1));
    comparison.show([]);
    await zoomed;
    for (let turn = 0; turn < 50; ++turn) await null; // whatever follows an answer follows it at once
    expect(held.map(({ aborted }) => aborted)).toEqual([true]);
  });

  it('says why something could not be read, and reads it again when asked to', async () => {
    const working = globalThis.fetch;
    vi.stubGlobal('fetch', async () => new Response('{"title":"Broken","request_id":"req-9"}', { status: 500 }));
    const { comparison } = open(['done']);
    const one = comparison.jobs.value[0]!;
    await vi.waitFor(() => expect(one.error?.requestId).toBe('req-9'));
    vi.stubGlobal('fetch', working);
    one.retry();
    await settled(comparison);
    expect([one.error, points(comparison, 0)]).toEqual([null, [1]]);
  });
});
