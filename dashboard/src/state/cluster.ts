import { signal } from '@preact/signals';
import { get } from '../api/client';
import type { Follower } from '../api/live';
import {
  jobStates,
  type ActorList,
  type Event,
  type Job,
  type JobList,
  type JobState,
  type Node,
  type NodeList,
} from '../api/types';
import { readEvents } from './events';
import { Resource } from './resource';

/** How many jobs are in a state: exact below the page size, "at least" beyond. */
export interface JobCount {
  jobs: number;
  more: boolean;
}

const pageSize = 100;
const eventsMax = 50;

export interface NodeRates {
  sent: number;
  received: number;
}

/** The cluster as the overview and the node page show it. Lives as long as the page; fed by the stream. */
export class Cluster implements Follower {
  readonly topics = ['cluster', 'jobs'];
  readonly nodes = new Resource<Node[]>();
  readonly actors = new Resource<JobCount>();
  readonly jobs = new Resource<Record<JobState, JobCount>>();
  readonly recent = new Resource<Job[]>();
  readonly events = new Resource<Event[]>();
  /** Network bytes per second by node id, from the last two heartbeats. */
  readonly rates = signal<ReadonlyMap<string, NodeRates>>(new Map());
  private readonly states = new Map<string, JobState>();
  /** A job changed while they were counted. */
  private miscounted = false;

  fresh(): void {
    void this.nodes.load(async (signal) => (await get<NodeList>('/api/v1/nodes', { limit: 1000 }, signal)).nodes);
    void this.events.load(async (signal) => (await readEvents('/api/v1/events', eventsMax, signal)).reverse());
    void this.actors.load(async (signal) => {
      const page = await get<ActorList>('/api/v1/actors', { limit: 1000 }, signal);
      return { jobs: page.actors.length, more: page.next !== null };
    });
    void this.recent.load(async (signal) => (await get<JobList>('/api/v1/jobs', { limit: 8 }, signal)).jobs);
    void this.countJobs();
  }

  record(kind: string, data: unknown): void {
    if (kind === 'node') this.nodeChanged(data as Node);
    if (kind === 'event') this.events.update((known) => withEvent(known, data as Event));
    if (kind === 'job' || kind === 'job_end') this.jobChanged(data as Job);
  }

  private async countJobs(): Promise<void> {
    this.miscounted = false;
    await this.jobs.load(async (signal) => {
      const pages = await Promise.all(
        jobStates.map((state) => get<JobList>('/api/v1/jobs', { state, limit: pageSize }, signal)),
      );
      this.states.clear();
      for (const page of pages) for (const job of page.jobs) this.states.set(job.id, job.state);
      const counts = pages.map((page) => ({ jobs: page.jobs.length, more: page.next !== null }));
      return Object.fromEntries(jobStates.map((state, index) => [state, counts[index]])) as Record<
        JobState,
        JobCount
      >;
    });
    if (this.miscounted) await this.countJobs();
  }

  private nodeChanged(node: Node): void {
    const before = this.nodes.data.value?.find((known) => known.id === node.id);
    const rates = before && ratesBetween(before, node);
    if (rates) this.rates.value = new Map(this.rates.value).set(node.id, rates);
    this.nodes.update((known) => withNode(known, node));
  }

  private jobChanged(job: Job): void {
    this.recent.update((known) => {
      const at = known.findIndex((other) => other.id === job.id);
      if (at >= 0) return known.map((other) => (other.id === job.id ? job : other));
      return [job, ...known].sort((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at)).slice(0, 8);
    });
    if (this.jobs.loading.value) this.miscounted = true;
    const before = this.states.get(job.id);
    if (before === job.state) return;
    this.states.set(job.id, job.state);
    this.jobs.update((known) => {
      const next = { ...known, [job.state]: { ...known[job.state], jobs: known[job.state].jobs + 1 } };
      if (before !== undefined) next[before] = { ...next[before], jobs: Math.max(0, next[before].jobs - 1) };
      return next;
    });
  }
}

/** The living by name, then the lost, as the head lists them. */
export function withNode(nodes: Node[], node: Node): Node[] {
  const at = nodes.findIndex((known) => known.id === node.id);
  return at >= 0
    ? nodes.map((known) => (known.id === node.id ? node : known))
    : [...nodes, node].sort((a, b) => Number(a.state === 'lost') - Number(b.state === 'lost') || byName(a, b));
}

function byName(a: Node, b: Node): number {
  return a.name.localeCompare(b.name);
}

/** Newest first, once each, at most `eventsMax`. */
export function withEvent(events: Event[], event: Event): Event[] {
  if (events.some((known) => known.id === event.id)) return events;
  return [event, ...events].slice(0, eventsMax);
}

/** Bytes per second between two heartbeats, or undefined if the counters began anew or no time has passed. */
export function ratesBetween(before: Node, after: Node): NodeRates | undefined {
  const span = (Date.parse(after.last_heartbeat_at ?? '') - Date.parse(before.last_heartbeat_at ?? '')) / 1000;
  const sent = (after.network_sent_bytes ?? 0) - (before.network_sent_bytes ?? 0);
  const received = (after.network_received_bytes ?? 0) - (before.network_received_bytes ?? 0);
  if (!(span > 0) || sent < 0 || received < 0) return undefined;
  return { sent: sent / span, received: received / span };
}
