import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Event, Job, Node } from '../api/types';
import { Cluster, cpuSlots, loadText, memoryText, sum, withEvent } from './cluster';
import { matches, withJob } from './job_pages';

const job = (id: string, state: Job['state'], minute = 0): Job => ({
  id,
  name: `name-${id}`,
  state,
  phase: '',
  reason: null,
  spec: {},
  created_at: `2026-11-21T12:${String(minute).padStart(2, '0')}:00Z`,
  started_at: null,
  ended_at: null,
  step: 0,
  steps_total: null,
  summary: {},
});
const node = (name: string, change: Partial<Node> = {}): Node => ({
  id: `id-${name}`,
  name,
  host: '127.0.0.1',
  state: 'alive',
  resources: {},
  used: {},
  labels: {},
  ...change,
});

describe('Cluster', () => {
  let jobs: Job[];
  let asked: string[];

  beforeEach(() => {
    jobs = [job('b', 'PENDING', 2), job('a', 'RUNNING', 1)];
    asked = [];
    vi.stubGlobal('fetch', (input: string) => {
      asked.push(input);
      const { pathname } = new URL(input, 'http://head');
      const counts: Record<string, number> = { PENDING: 0, RUNNING: 0, SUCCEEDED: 12_345, FAILED: 0, STOPPED: 0 };
      for (const { state } of jobs) ++counts[state]!;
      const answers: Record<string, unknown> = {
        '/api/v1/nodes': { nodes: [], next: null },
        '/api/v1/events': { events: [], next: null },
        '/api/v1/actors': { actors: [{ name: 'x' }], next: 'more' },
        '/api/v1/jobs': { jobs, counts, next: 'more' },
      };
      return Promise.resolve(new Response(JSON.stringify(answers[pathname])));
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  const loaded = async () => {
    const cluster = new Cluster();
    cluster.fresh();
    await vi.waitFor(() => expect(cluster.jobs.data.value).not.toBeNull());
    await vi.waitFor(() => expect(cluster.actors.data.value).not.toBeNull());
    return cluster;
  };
  const reads = () => asked.filter((path) => path.startsWith('/api/v1/jobs')).length;

  it('shows how many jobs there are, not how many are on a page', async () => {
    const cluster = await loaded();
    expect(cluster.jobs.data.value?.counts).toEqual({
      PENDING: 1,
      RUNNING: 1,
      SUCCEEDED: 12_345,
      FAILED: 0,
      STOPPED: 0,
    });
    expect(reads()).toBe(1);
  });

  it('reads anew why jobs wait when the stream goes on, if any of the newest does', async () => {
    const cluster = await loaded();
    jobs = [{ ...job('b', 'PENDING', 2), reason: 'waits for 2 slots' }, job('a', 'RUNNING', 1)];
    cluster.resumed();
    await vi.waitFor(() => expect(cluster.jobs.data.value?.jobs[0]?.reason).toBe('waits for 2 slots'));
    expect(reads()).toBe(2);
    jobs = [job('a', 'RUNNING', 1)];
    cluster.fresh();
    await vi.waitFor(() => expect(cluster.jobs.data.value?.jobs).toHaveLength(1));
    cluster.resumed();
    expect(reads(), 'nobody waits').toBe(3);
  });

  it('counts again when a job changes its state, once for many, and not when it only moves on', async () => {
    const cluster = await loaded();
    cluster.record('job', { ...job('a', 'RUNNING', 1), step: 7 });
    expect(reads()).toBe(1);
    expect(cluster.jobs.data.value?.jobs.find(({ id }) => id === 'a')?.step).toBe(7);
    jobs = [job('c', 'RUNNING', 3), job('b', 'RUNNING', 2), job('a', 'FAILED', 1)];
    cluster.record('job_end', job('a', 'FAILED', 1));
    cluster.record('job', job('b', 'RUNNING', 2));
    cluster.record('job', job('c', 'RUNNING', 3));
    expect(cluster.jobs.data.value?.jobs.map(({ id }) => id)).toEqual(['c', 'b', 'a']);
    await vi.waitFor(() => expect(cluster.jobs.loading.value).toBe(false));
    expect(cluster.jobs.data.value?.counts).toMatchObject({ PENDING: 0, RUNNING: 2, FAILED: 1 });
    expect(reads()).toBe(3);
  });

  it('counts the actors again when jobs start and end, once for many', async () => {
    const cluster = await loaded();
    await vi.waitFor(() => expect(cluster.actors.loading.value).toBe(false));
    const counted = () => asked.filter((path) => path.startsWith('/api/v1/actors')).length;
    cluster.record('job', { ...job('a', 'RUNNING', 1), step: 7 });
    expect(counted()).toBe(1);
    vi.useFakeTimers();
    for (const phase of ['spawning', 'initialising', 'training']) {
      for (const id of ['a', 'b']) cluster.record('job', { ...job(id, 'RUNNING'), phase });
    }
    cluster.record('job_end', job('a', 'FAILED', 1));
    await vi.advanceTimersByTimeAsync(0);
    expect(counted()).toBe(2);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(counted()).toBe(3);
  });

  it('a job that was removed is shown and counted no more', async () => {
    const cluster = await loaded();
    jobs = [job('b', 'PENDING', 2)];
    cluster.record('job_removed', { id: 'a' });
    expect(cluster.jobs.data.value?.jobs.map(({ id }) => id)).toEqual(['b']);
    await vi.waitFor(() => expect(cluster.jobs.data.value?.counts).toMatchObject({ PENDING: 1, RUNNING: 0 }));
  });
});

describe('lists that follow the stream', () => {
  it('events come once, newest first, and not for ever', () => {
    const event = (id: number) => ({ id, at: '', severity: 'info', kind: '', message: '' }) as Event;
    let events: Event[] = [];
    for (let id = 1; id <= 60; ++id) events = withEvent(events, event(id));
    expect(withEvent(events, event(60))).toBe(events);
    expect([events.length, events[0]?.id]).toEqual([50, 60]);
  });

  it('what nobody measured is not zero', () => {
    const silent = node('a', { last_heartbeat_at: '2026-11-21T12:00:00Z' });
    const nulls = { ...silent, cpu_load: null };
    expect(loadText(silent)).toBe('–');
    expect(loadText(nulls as unknown as Node)).toBe('–');
    expect(loadText(node('b', { cpu_load: 0 }))).toBe('0.00 cores');
    expect(memoryText(silent)).toBe('– of –');
    expect(sum([silent, nulls as unknown as Node], ({ cpu_load }) => cpu_load)).toBeNull();
    expect(sum([silent, node('b', { cpu_load: 0 })], ({ cpu_load }) => cpu_load)).toBe(0);
    expect(sum([node('a', { cpu_load: 1 }), silent, node('b', { cpu_load: 2 })], ({ cpu_load }) => cpu_load)).toBe(3);
  });

  it('the free slots of nodes that take no work are not counted', () => {
    const cpu = { resources: { cpu: 8 } };
    const nodes = [
      node('a', { ...cpu, used: { cpu: 3 } }),
      node('b', { ...cpu, state: 'draining', used: { cpu: 2 } }),
      node('c', { ...cpu, state: 'draining' }),
      node('d', { ...cpu, state: 'lost', used: { cpu: 1 } }),
    ];
    expect(cpuSlots(nodes)).toEqual({ used: 5, total: 10 });
    expect(cpuSlots([])).toEqual({ used: null, total: null });
  });

  it('a job joins the page that would list it, and leaves one that would not', () => {
    const all = { state: '', q: '', cursor: '' };
    const page = [job('b', 'RUNNING', 5), job('a', 'RUNNING', 1)];
    const ids = (jobs: Job[]) => jobs.map(({ id }) => id);
    expect(ids(withJob(page, job('c', 'PENDING', 9), all))).toEqual(['c', 'b', 'a']);
    expect(ids(withJob(page, job('c', 'PENDING', 9), { ...all, cursor: 'x' }))).toEqual(['b', 'a']);
    expect(ids(withJob(page, job('b', 'FAILED', 5), { ...all, state: 'RUNNING' }))).toEqual(['a']);
    expect(matches(job('xyz', 'RUNNING'), { ...all, q: 'NAME-XY' })).toBe(true);
    expect(matches(job('xyz', 'RUNNING'), { ...all, state: 'PENDING,RUNNING' })).toBe(true);
    expect(matches(job('xyz', 'RUNNING'), { ...all, q: 'other' })).toBe(false);
  });
});
