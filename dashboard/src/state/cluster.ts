import { get } from '../api/client';
import type { Follower } from '../live/stream';
import {
  isJobRecord,
  isRemoved,
  type ActorList,
  type Event,
  type Job,
  type JobList,
  type JobRecord,
  type Node,
} from '../api/types';
import { bytes, cores } from '../format';
import { readEvents } from './events';
import { Nodes } from './nodes';
import { Pace } from './pace';
import { Resource } from './resource';

const recentJobs = 8;
const actorsMax = 1000;
const eventsMax = 50;

/** The cluster as the overview shows it. Lives as long as the page; fed by the stream. */
export class Cluster implements Follower {
  readonly topics = ['cluster', 'jobs'];
  readonly nodes = new Nodes();
  readonly actors = new Resource<ActorList>();
  /** The newest jobs, and how many there are of each state. */
  readonly jobs = new Resource<JobList>();
  readonly events = new Resource<Event[]>();
  /** What jobs were last known to do, by id. */
  private readonly known = new Map<string, Pick<Job, 'state' | 'phase'>>();
  private readonly recountActors = new Pace(() => this.loadActors());
  /** There was a cause to count them again while they were counted. */
  private miscounted = false;

  fresh(): void {
    this.nodes.fresh();
    void this.events.load((signal) => readEvents('/api/v1/events', eventsMax, signal));
    void this.loadActors();
    void this.loadJobs();
  }

  resumed(): void {
    if (this.jobs.data.value?.jobs.some(({ state }) => state === 'PENDING')) this.recount();
  }

  record(kind: string, data: unknown): void {
    this.nodes.record(kind, data);
    if (kind === 'event') this.events.add((known) => withEvent(known, data as Event));
    if (isJobRecord(kind)) this.jobChanged(data as JobRecord);
  }

  private loadActors(): Promise<boolean> {
    return this.actors.load((signal) => get<ActorList>('/api/v1/actors', { limit: actorsMax }, signal));
  }

  private async loadJobs(): Promise<void> {
    this.miscounted = false;
    const taken = await this.jobs.load(async (signal) => {
      const page = await get<JobList>('/api/v1/jobs', { limit: recentJobs }, signal);
      for (const { id, state, phase } of page.jobs) this.known.set(id, { state, phase });
      return page;
    });
    if (taken && this.miscounted) await this.loadJobs();
  }

  /** One count at a time, however many causes there are. */
  private recount(): void {
    if (this.jobs.loading.value) this.miscounted = true;
    else void this.loadJobs();
  }

  private jobChanged(job: JobRecord): void {
    const now = isRemoved(job) ? undefined : job;
    this.jobs.update((page) => {
      const rest = page.jobs.filter(({ id }) => id !== job.id);
      if (now === undefined) return { ...page, jobs: rest };
      const jobs = [now, ...rest].sort((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at));
      return { ...page, jobs: jobs.slice(0, recentJobs) };
    });
    const before = this.known.get(job.id);
    if (now === undefined) this.known.delete(job.id);
    else this.known.set(job.id, { state: now.state, phase: now.phase });
    if (before?.phase !== now?.phase) this.recountActors.ask(); // they come and go with the phases
    if (now !== undefined && before?.state === now.state) return;
    this.recount(); // what it was before is the head's to know
  }
}

/** The sum of what was measured, or null where nothing was. */
export function sum(nodes: readonly Node[], pick: (node: Node) => number | null | undefined): number | null {
  const known = nodes.map(pick).filter((value) => typeof value === 'number');
  return known.length === 0 ? null : known.reduce((total, value) => total + value, 0);
}

/** CPU slots of the nodes that are there. One that is draining takes no work: it has those that are still used. */
export function cpuSlots(nodes: readonly Node[]): { used: number | null; total: number | null } {
  const there = nodes.filter(({ state }) => state !== 'lost');
  const used = (node: Node) => node.used['cpu'] ?? 0; // nothing in use is not named
  const total = sum(there, (node) => (node.state === 'draining' ? used(node) : node.resources['cpu']));
  return { used: sum(there, used), total };
}

/** "1.86 cores". What a lost node last said holds no more. */
export function loadText(node: Node): string {
  return node.state === 'lost' ? '–' : cores(node.cpu_load, 2);
}

/** "3.1 GB of 8.2 GB" */
export function memoryText(node: Node): string {
  return `${node.state === 'lost' ? '–' : bytes(node.memory_used_bytes)} of ${bytes(node.memory_total_bytes)}`;
}

/** Newest first, once each, at most `eventsMax`. */
export function withEvent(events: Event[], event: Event): Event[] {
  if (events.some((known) => known.id === event.id)) return events;
  return [event, ...events].slice(0, eventsMax);
}
