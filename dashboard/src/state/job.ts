import { signal } from '@preact/signals';
import { clockSkew, get, request } from '../api/client';
import type { Follower } from '../live/stream';
import {
  isJobRecord,
  isRemoved,
  isTerminal,
  type Checkpoint,
  type CheckpointList,
  type Event,
  type Job,
  type JobRecord,
  type Metrics as Answer,
  type MetricsRecord,
  type Worker,
} from '../api/types';
import type { Watched } from '../format';
import { getAt } from '../forms/pointer';
import { readEvents } from './events';
import { Metrics, type ReadMetrics } from './metrics';
import { Pace } from './pace';
import { Resource } from './resource';

/** Fields of a worker that its metrics carry by the same name. */
const workerFigures = new Set([
  'loss',
  'samples_per_second',
  'bytes_sent',
  'bytes_received',
  'bytes_dense',
  'compression_ratio',
  'step_seconds',
  'wait_seconds',
]);

/** The newest events of a job that its page reads and keeps. */
export const eventsMax = 1000;

/** One job, as its page shows it: read once, then kept up by the stream. */
export class JobPage implements Follower {
  readonly topics: string[];
  readonly job = new Resource<Job>();
  readonly events = new Resource<Event[]>();
  readonly checkpoints = new Resource<Checkpoint[]>();
  readonly metrics: Metrics;
  /** Where the job was when it was first seen to train: what it did before, and elsewhere, says nothing of its pace. */
  watched: Watched | null = null;
  /** There is no such job, or no longer: deleted here or elsewhere. */
  readonly gone = signal(false);
  private readonly path: string;
  private readonly followed = new Set<Metrics>();
  /** The newest record that came while the job was being read: the answer may be older. */
  private meanwhile: Job | null = null;
  /** A thousand workers that start are a thousand events, and streams may break often: one read, or one a second. */
  private readonly reread = new Pace(() => this.loadJob());

  constructor(
    readonly id: string,
    private readonly points: number,
  ) {
    this.topics = [`job:${id}`];
    this.path = `/api/v1/jobs/${encodeURIComponent(id)}`;
    this.metrics = this.series(null);
  }

  /** Series of these names of every rank, or the usual ones of the job. They stand still unless they are followed. */
  series(names: readonly string[] | null): Metrics {
    const read: ReadMetrics = (query, signal) => get<Answer>(`${this.path}/metrics`, { ...query }, signal);
    return new Metrics(read, this.points, names === null ? {} : { names, worker: 'all' });
  }

  /** Reads the series and keeps them up. Returns how to let go of them. */
  follow(series: Metrics): () => void {
    this.followed.add(series);
    void series.load();
    return () => this.followed.delete(series);
  }

  fresh(): void {
    void this.loadJob();
    void this.loadEvents();
    void this.loadCheckpoints();
    for (const series of [this.metrics, ...this.followed]) void series.load();
  }

  resumed(): void {
    if (this.job.data.value?.state === 'PENDING') this.reread.ask();
  }

  record(kind: string, data: unknown): void {
    if (kind === 'metrics') this.tookMetrics(data as MetricsRecord);
    if (kind === 'event') this.tookEvent(data as Event);
    if (kind === 'checkpoint') this.tookCheckpoint(data as Checkpoint & { job: string });
    if (isJobRecord(kind)) this.tookJobRecord(data as JobRecord);
  }

  async stop(): Promise<void> {
    const job = await request<Job>('POST', `${this.path}/stop`);
    this.tookJob(job);
  }

  async remove(): Promise<void> {
    await request('DELETE', this.path);
    this.gone.value = true;
  }

  private async loadJob(): Promise<void> {
    this.meanwhile = null;
    const taken = await this.job.load((signal) => get<Job>(this.path, {}, signal));
    if (taken && this.job.data.value !== null) this.watch(this.job.data.value);
    if (taken && this.meanwhile !== null) this.tookJob(this.meanwhile);
    if (this.job.error.value?.status === 404) this.gone.value = true;
  }

  private loadEvents(): Promise<boolean> {
    return this.events.load(async (signal) => (await readEvents(`${this.path}/events`, eventsMax, signal)).reverse());
  }

  private loadCheckpoints(): Promise<boolean> {
    return this.checkpoints.load(
      async (signal) => (await get<CheckpointList>(`${this.path}/checkpoints`, {}, signal)).checkpoints,
    );
  }

  private tookJobRecord(record: JobRecord): void {
    if (!isRemoved(record)) this.tookJob(record);
    else if (record.id === this.id) this.gone.value = true;
  }

  private tookJob(news: Job): void {
    if (news.id !== this.id) return;
    this.meanwhile = news;
    const known = this.job.data.value;
    if (known === null) return;
    this.watch(news);
    this.job.update(() => ({
      ...news,
      ...(news.workers === undefined && known.workers && { workers: known.workers }),
    }));
    // Ranks, nodes and exits are told with the job itself only: read them when it has moved on.
    if (news.phase !== known.phase || news.state !== known.state) void this.loadJob();
    if (isTerminal(news.state) && !isTerminal(known.state)) void this.loadCheckpoints();
  }

  private watch(job: Job): void {
    // While it starts or recovers no step is done, and then it goes on from a checkpoint.
    if (job.phase !== 'training' || job.step < (this.watched?.step ?? 0)) this.watched = null;
    if (job.phase === 'training' && job.step > 0) this.watched ??= { step: job.step, at: Date.now() + clockSkew };
  }

  private tookMetrics(record: MetricsRecord): void {
    if (record.job !== this.id) return;
    for (const series of [this.metrics, ...this.followed]) series.append(record.points, record.restarts);
    this.job.update((job) => (job.workers ? { ...job, workers: withFigures(job.workers, record) } : job));
  }

  private tookEvent(event: Event): void {
    if (event.job !== this.id) return;
    this.events.add((known) =>
      known.some((other) => other.id === event.id) ? known : [...known, event].slice(-eventsMax),
    );
    if (event.worker !== null && event.worker !== undefined) this.reread.ask();
  }

  private tookCheckpoint(news: Checkpoint & { job: string }): void {
    if (news.job !== this.id) return;
    const keep = getAt(this.job.data.value?.spec, '/checkpoint/keep');
    this.checkpoints.add((known) => withCheckpoint(known, news, typeof keep === 'number' ? keep : Infinity));
  }
}

/** Those that the head keeps once it has the new one, of which it tells nothing: the `keep` of the highest steps. */
export function withCheckpoint(known: readonly Checkpoint[], news: Checkpoint, keep: number): Checkpoint[] {
  const all = [...known.filter((other) => other.step !== news.step), news];
  return all.sort((a, b) => a.step - b.step).slice(-keep);
}

/** The workers with the last values of a metrics record filled in. */
export function withFigures(workers: readonly Worker[], record: MetricsRecord): Worker[] {
  const changes = new Map<number, Partial<Worker>>();
  for (const [name, worker, step, , , value] of record.points) {
    if (worker === null) continue;
    const change = changes.get(worker) ?? {};
    changes.set(worker, change);
    if (workerFigures.has(name)) Object.assign(change, { [name]: value });
    change.step = Math.max(change.step ?? 0, step);
  }
  return workers.map((worker) => {
    const change = changes.get(worker.rank);
    return change ? { ...worker, ...change, step: Math.max(worker.step, change.step ?? 0) } : worker;
  });
}
