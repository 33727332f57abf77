import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Job } from '../api/types';
import { JobPages, limit, matches, type JobFilter } from './job_pages';

const all = { state: '', q: '', cursor: '' };
const job = (number: number, state: Job['state'] = 'RUNNING'): Job => ({
  id: `job-${number}`,
  name: `name-${number}`,
  state,
  phase: '',
  reason: null,
  spec: {},
  created_at: new Date(number * 1000).toISOString(),
  started_at: null,
  ended_at: null,
  step: 0,
  steps_total: null,
  summary: {},
});

describe('JobPages', () => {
  /** The head's jobs, newest first. */
  let jobs: Job[];
  let reads: number;
  /** Called between the head's look at its jobs and the arrival of its answer. */
  let onTheWay: () => void;

  beforeEach(() => {
    vi.useFakeTimers();
    reads = 0;
    onTheWay = () => {};
    vi.stubGlobal('fetch', (input: string) => {
      ++reads;
      const { searchParams } = new URL(input, 'http://head');
      const filter = { ...all, state: searchParams.get('state') ?? '' };
      const found = jobs.filter((one) => matches(one, filter));
      const answer = { jobs: found.slice(0, limit), counts: {}, next: found.length > limit ? found[limit]!.id : null };
      onTheWay();
      return Promise.resolve(new Response(JSON.stringify(answer)));
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  async function shown(filter: JobFilter, count: number): Promise<JobPages> {
    jobs = Array.from({ length: count }, (_, index) => job(count - index));
    const pages = new JobPages();
    pages.show(filter);
    await vi.advanceTimersByTimeAsync(0);
    expect(reads).toBe(1);
    return pages;
  }
  const told = (pages: JobPages, news: Job) => {
    jobs = [news, ...jobs.filter(({ id }) => id !== news.id)].sort((a, b) => b.created_at.localeCompare(a.created_at));
    pages.record('job', news);
  };
  const ids = (pages: JobPages) => pages.page.data.value?.jobs.map(({ id }) => id);

  it('jobs that new ones push from the first page are on the next', async () => {
    const pages = await shown(all, limit);
    expect(pages.page.data.value?.next).toBeNull();
    told(pages, job(51));
    await vi.advanceTimersByTimeAsync(0);
    expect(ids(pages)).toHaveLength(limit);
    expect(pages.page.data.value?.next).toBe('job-1');
    for (let number = 52; number <= 150; ++number) told(pages, job(number));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(pages.page.data.value?.next).toBe('job-100');
    expect(reads, 'once for all of them').toBe(3);
  });

  it('rows that leave a filtered page make room for those behind it', async () => {
    const pages = await shown({ ...all, state: 'RUNNING' }, 2 * limit);
    for (let number = 51; number <= 100; ++number) told(pages, job(number, 'SUCCEEDED'));
    expect(ids(pages)).toEqual([]);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(ids(pages)?.[0]).toBe('job-50');
    expect(ids(pages)).toHaveLength(limit);
    expect(pages.page.data.value?.next).toBeNull();
    expect(reads).toBe(3);
  });

  it('a job that was removed leaves, and the next one moves up', async () => {
    const pages = await shown(all, limit + 1);
    jobs = jobs.filter(({ id }) => id !== 'job-30');
    pages.record('job_removed', { id: 'job-30' });
    expect(ids(pages)).toHaveLength(limit - 1);
    await vi.advanceTimersByTimeAsync(0);
    expect(ids(pages)?.at(-1)).toBe('job-1');
    expect(pages.page.data.value?.next).toBeNull();
  });

  it('reads nothing for jobs that only move on, here or on another page', async () => {
    const pages = await shown(all, limit + 5);
    told(pages, { ...job(3), step: 7 });
    told(pages, { ...job(30), step: 7 });
    await vi.advanceTimersByTimeAsync(10_000);
    expect(ids(pages)).not.toContain('job-3');
    expect(pages.page.data.value?.jobs.find(({ id }) => id === 'job-30')?.step).toBe(7);
    expect(reads).toBe(1);
  });

  it('reads anew why jobs wait when the stream goes on, if any of the page does', async () => {
    const pages = await shown(all, 3);
    pages.resumed();
    expect(reads).toBe(1);
    told(pages, job(2, 'PENDING'));
    jobs = jobs.map((one) => (one.state === 'PENDING' ? { ...one, reason: 'waits for 2 slots' } : one));
    pages.resumed();
    await vi.advanceTimersByTimeAsync(0);
    expect(pages.page.data.value?.jobs.map(({ reason }) => reason)).toEqual([null, 'waits for 2 slots', null]);
    pages.resumed();
    await vi.advanceTimersByTimeAsync(500);
    expect(reads, 'a connection may break often').toBe(2);
  });

  it('a record that comes while the page is read is newer than the answer', async () => {
    const pages = await shown(all, 3);
    onTheWay = () => pages.record('job_end', job(2, 'FAILED'));
    pages.fresh();
    await vi.advanceTimersByTimeAsync(0);
    expect(pages.page.data.value?.jobs.map(({ state }) => state)).toEqual(['RUNNING', 'FAILED', 'RUNNING']);
  });
});
