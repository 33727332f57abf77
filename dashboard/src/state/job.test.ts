import { afterEach, describe, expect, it, vi } from 'vitest';
import { stretches } from '../components/timeline';
import type { Job, Worker } from '../api/types';
import { eventsMax, JobPage, withFigures } from './job';

const worker = (rank: number): Worker => ({
  rank,
  role: 'worker',
  worker_id: `w-${rank}`,
  state: 'running',
  step: 5,
  loss: 2,
});

describe('withFigures', () => {
  it('gives each worker its own last values, and never an older step', () => {
    const workers = withFigures([worker(0), worker(1), worker(2)], {
      job: 'a',
      restarts: 0,
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

describe('JobPage', () => {
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it('a record that comes while the job is read is newer than the answer', async () => {
    const running = { id: 'a', name: 'a', state: 'RUNNING', phase: 'training', workers: [worker(0)] };
    const ended = { ...running, state: 'FAILED', phase: '', workers: undefined } as unknown as Job;
    const page = new JobPage('a', 500);
    let asked = 0;
    vi.stubGlobal('fetch', (path: string) => {
      if (path !== '/api/v1/jobs/a') return Promise.resolve(new Response('{}'));
      // The end is told between the head's look at the job and the arrival of its answer.
      if (++asked === 1) page.record('job_end', ended);
      return Promise.resolve(new Response(JSON.stringify(asked === 1 ? running : { ...running, ...ended })));
    });
    page.fresh();
    await vi.waitFor(() => expect(page.job.data.value?.state).toBe('FAILED'));
    await vi.waitFor(() => expect(page.job.loading.value).toBe(false));
    expect(page.job.data.value?.state).toBe('FAILED');
    expect(asked).toBe(2);
  });

  it('series of a part of the page are read and kept up while it is shown', async () => {
    const page = new JobPage('a', 500);
    const asked: string[] = [];
    vi.stubGlobal('fetch', (path: string) => {
      asked.push(path);
      return Promise.resolve(new Response('{"job": "a", "x": "step", "series": []}'));
    });
    const steps = page.series(['local_steps']);
    const measured = (step: number) =>
      page.record('metrics', { job: 'a', restarts: 0, points: [['local_steps', 1, step, 1, 1, 8]] });
    const xs = () => steps.line('local_steps', 1).points.map(({ x }) => x);
    measured(1);
    const leave = page.follow(steps);
    await vi.waitFor(() => expect(steps.history.data.value).not.toBeNull());
    expect(asked).toEqual(['/api/v1/jobs/a/metrics?worker=all&x=step&points=500&name=local_steps']);
    measured(2);
    expect(xs()).toEqual([2]);
    page.fresh();
    expect(asked.filter((path) => path.includes('name=local_steps'))).toHaveLength(2);
    leave();
    measured(3);
    expect(xs()).toEqual([2]);
  });

  it('keeps the checkpoints that the head keeps, and no more events than it reads', async () => {
    const checkpoint = (step: number) => ({ step, bytes: 1, created_at: '' });
    const event = (id: number) => ({ id, job: 'a', worker: null });
    const answers: Record<string, unknown> = {
      '/api/v1/jobs/a': { id: 'a', state: 'RUNNING', phase: 'training', spec: { checkpoint: { keep: 3 } } },
      '/api/v1/jobs/a/checkpoints': { checkpoints: [checkpoint(100), checkpoint(200)] },
      '/api/v1/jobs/a/events': { events: [event(1)] },
    };
    vi.stubGlobal('fetch', (path: string) =>
      Promise.resolve(new Response(JSON.stringify(answers[path.split('?')[0]!] ?? {}))),
    );
    const page = new JobPage('a', 500);
    page.fresh();
    await vi.waitFor(() => expect(page.checkpoints.data.value).toHaveLength(2));
    await vi.waitFor(() => expect(page.events.data.value).toHaveLength(1));
    await vi.waitFor(() => expect(page.job.data.value).not.toBeNull());
    const steps = () => page.checkpoints.data.value?.map(({ step }) => step);
    for (const step of [300, 300, 400, 500]) page.record('checkpoint', { job: 'a', ...checkpoint(step) });
    expect(steps()).toEqual([300, 400, 500]);
    page.record('checkpoint', { job: 'a', ...checkpoint(350) });
    expect(steps(), 'the head removes the lowest step, not the oldest file').toEqual([350, 400, 500]);
    for (let id = 2; id <= eventsMax + 5; ++id) page.record('event', event(id));
    expect(page.events.data.value).toHaveLength(eventsMax);
    expect(page.events.data.value?.at(-1)).toEqual(event(eventsMax + 5));
  });

  it('keeps events and checkpoints that come while their lists are read', async () => {
    const checkpoint = (step: number) => ({ step, bytes: 1, created_at: '' });
    const answers: ((body: unknown) => void)[] = [];
    vi.stubGlobal('fetch', (path: string) => {
      if (!/events|checkpoints/.test(path)) return Promise.resolve(new Response('{}'));
      return new Promise((resolve) => answers.push((body) => resolve(new Response(JSON.stringify(body)))));
    });
    const page = new JobPage('a', 500);
    const ids = () => page.events.data.value?.map(({ id }) => id);
    const steps = () => page.checkpoints.data.value?.map(({ step }) => step);
    page.fresh();
    for (const id of [1, 2]) page.record('event', { id, job: 'a', worker: null });
    for (const step of [100, 200]) page.record('checkpoint', { job: 'a', ...checkpoint(step) });
    // The answers are from before the second of each.
    answers[0]!({ events: [{ id: 1, job: 'a', worker: null }] });
    answers[1]!({ checkpoints: [checkpoint(100)] });
    await vi.waitFor(() => expect([ids(), steps()]).toEqual([[1, 2], [100, 200]]));
    page.fresh(); // and what it takes away stays away
    answers[2]!({ events: [{ id: 2, job: 'a', worker: null }] });
    answers[3]!({ checkpoints: [checkpoint(200)] });
    await vi.waitFor(() => expect([ids(), steps()]).toEqual([[2], [200]]));
  });

  it('reads the job once for the events of many workers, and once more for the last of them', async () => {
    vi.useFakeTimers();
    let asked = 0;
    vi.stubGlobal('fetch', () => {
      ++asked;
      return Promise.resolve(new Response('{"id": "a", "state": "RUNNING"}'));
    });
    const page = new JobPage('a', 500);
    for (let worker = 0; worker < 1024; ++worker) page.record('event', { id: worker, job: 'a', worker });
    await vi.advanceTimersByTimeAsync(0);
    expect(asked).toBe(1);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toBe(2);
    page.record('event', { id: 2000, job: 'a', worker: 1 });
    expect(asked).toBe(3);
  });

  it('reads anew why it waits when the stream goes on, and nothing once it runs', async () => {
    vi.useFakeTimers();
    const asked: string[] = [];
    let job = { id: 'a', state: 'PENDING', reason: 'waits for 8 slots' };
    vi.stubGlobal('fetch', (path: string) => {
      asked.push(path);
      return Promise.resolve(new Response(JSON.stringify(path.endsWith('/a') ? job : {})));
    });
    const page = new JobPage('a', 500);
    page.fresh();
    await vi.advanceTimersByTimeAsync(0);
    job = { ...job, reason: 'waits for 2 slots' };
    asked.length = 0;
    page.resumed();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(page.job.data.value?.reason).toBe('waits for 2 slots');
    expect(asked).toEqual(['/api/v1/jobs/a']);
    job = { ...job, state: 'RUNNING' };
    page.record('job', job);
    await vi.advanceTimersByTimeAsync(10_000);
    asked.length = 0;
    page.resumed();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).toEqual([]);
  });

  it('watches the pace from the first step that it sees, anew after a restart', async () => {
    vi.useFakeTimers({ now: 1_000_000 });
    const told = (step: number, phase = 'training') => ({ id: 'a', state: 'RUNNING', phase, step }) as Job;
    let job = told(0, 'initialising');
    vi.stubGlobal('fetch', () => Promise.resolve(new Response(JSON.stringify(job))));
    const page = new JobPage('a', 500);
    const tell = (news: Job) => {
      job = news;
      page.record('job', job);
      return vi.advanceTimersByTimeAsync(0);
    };
    page.fresh();
    await vi.advanceTimersByTimeAsync(0);
    expect(page.watched).toBeNull();
    await tell(told(0));
    await vi.advanceTimersByTimeAsync(30_000);
    await tell(told(40_001)); // it goes on from a checkpoint at 40,000
    await vi.advanceTimersByTimeAsync(10_000);
    await tell(told(40_011));
    expect(page.watched).toEqual({ step: 40_001, at: 1_030_000 });
    await tell(told(40_011, 'recovering'));
    expect(page.watched).toBeNull();
    await tell(told(40_005));
    expect(page.watched).toEqual({ step: 40_005, at: 1_040_000 });
  });

  it('a job that is not there is not followed', async () => {
    vi.stubGlobal('fetch', () => Promise.resolve(new Response('{"status": 404}', { status: 404 })));
    const page = new JobPage('a', 500);
    page.fresh();
    await vi.waitFor(() => expect(page.gone.value).toBe(true));
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
