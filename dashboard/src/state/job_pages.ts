import { get } from '../api/client';
import type { Follower } from '../live/stream';
import type { Job, JobList } from '../api/types';
import { Resource } from './resource';

export interface JobFilter {
  state: string;
  q: string;
  cursor: string;
}

const limit = 50;

/** One page of the job list. Its rows follow the stream; a new job joins the first page if it belongs there. */
export class JobPages implements Follower {
  readonly topics = ['jobs'];
  readonly page = new Resource<JobList>();
  private filter: JobFilter | null = null;

  show(filter: JobFilter): void {
    this.filter = filter;
    this.fresh();
  }

  fresh(): void {
    const filter = this.filter;
    if (filter === null) return;
    void this.page.load((signal) => get<JobList>('/api/v1/jobs', { ...filter, limit }, signal));
  }

  record(kind: string, data: unknown): void {
    if (kind !== 'job' && kind !== 'job_end') return;
    const filter = this.filter;
    if (filter !== null) this.page.update((page) => ({ ...page, jobs: withJob(page.jobs, data as Job, filter) }));
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

export function withJob(jobs: readonly Job[], job: Job, filter: JobFilter): Job[] {
  const rest = jobs.filter((other) => other.id !== job.id);
  const known = rest.length < jobs.length;
  if (!matches(job, filter)) return rest;
  if (known) return jobs.map((other) => (other.id === job.id ? job : other));
  if (filter.cursor !== '') return [...jobs];
  return [job, ...jobs].sort((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at)).slice(0, limit);
}
