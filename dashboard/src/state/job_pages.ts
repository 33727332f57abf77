import { get } from '../api/client';
import type { Follower } from '../live/stream';
import { isJobRecord, isRemoved, type Job, type JobList, type JobRecord } from '../api/types';
import { Pace } from './pace';
import { Resource } from './resource';

export interface JobFilter {
  state: string;
  q: string;
  cursor: string;
}

/** Rows of a page. */
export const limit = 50;

/**
 * One page of the job list. Its rows follow the stream; a new job joins the first page if it belongs there. When a row
 * has gone, another one belongs in its place or the next page begins elsewhere, so the page is read anew.
 */
export class JobPages implements Follower {
  readonly topics = ['jobs'];
  readonly page = new Resource<JobList>();
  private filter: JobFilter | null = null;
  /** The newest record of each job that came while the page was being read: the answer may be older. */
  private readonly meanwhile = new Map<string, JobRecord>();
  private readonly reread = new Pace(() => this.load());

  show(filter: JobFilter): void {
    this.filter = filter;
    this.fresh();
  }

  fresh(): void {
    void this.load();
  }

  resumed(): void {
    if (this.page.data.value?.jobs.some(({ state }) => state === 'PENDING')) this.reread.ask();
  }

  record(kind: string, data: unknown): void {
    if (!isJobRecord(kind)) return;
    const record = data as JobRecord;
    if (this.page.loading.value) this.meanwhile.set(record.id, record);
    this.took(record);
  }

  private async load(): Promise<void> {
    const filter = this.filter;
    if (filter === null) return;
    this.meanwhile.clear();
    const taken = await this.page.load((signal) => get<JobList>('/api/v1/jobs', { ...filter, limit }, signal));
    if (taken) for (const record of this.meanwhile.values()) this.took(record);
  }

  private took(record: JobRecord): void {
    const filter = this.filter;
    const page = this.page.data.value;
    if (filter === null || page === null) return;
    const fitting = withJob(page.jobs, record, filter);
    const jobs = fitting.slice(0, limit);
    this.page.update(() => ({ ...page, jobs }));
    const gone = page.jobs.some(({ id }) => !jobs.some((job) => job.id === id));
    if (gone || (fitting.length > limit && page.next === null)) this.reread.ask();
  }
}

/** Whether the head would list the job under this filter. */
export function matches(job: Job, { state, q }: JobFilter): boolean {
  const text = q.toLowerCase();
  return (
    (state === '' || state.split(',').includes(job.state)) &&
    (job.name.toLowerCase().includes(text) || job.id.toLowerCase().includes(text))
  );
}

/** The rows of a page after a record; there may be one too many for it. */
export function withJob(jobs: readonly Job[], job: JobRecord, filter: JobFilter): Job[] {
  const rest = jobs.filter((other) => other.id !== job.id);
  const known = rest.length < jobs.length;
  if (isRemoved(job) || !matches(job, filter)) return rest;
  if (known) return jobs.map((other) => (other.id === job.id ? job : other));
  if (filter.cursor !== '') return [...jobs];
  return [job, ...jobs].sort((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at));
}
