import { computed, signal } from '@preact/signals';
import { ApiError, get } from '../api/client';
import {
  isJobRecord,
  isRemoved,
  isTerminal,
  type Job,
  type JobRecord,
  type Metrics as Answer,
  type MetricsAxis,
  type MetricsRecord,
} from '../api/types';
import type { Follower } from '../live/stream';
import { Metrics, type Zoom } from './metrics';
import { Resource } from './resource';

/** Starts to follow the stream; the result ends it. */
export type Follow = (follower: Follower) => () => void;

/** What of their series is shown, of all jobs alike. */
interface Shown {
  names: readonly string[];
  axis: MetricsAxis;
  zoom: Zoom | null;
}

/**
 * One of several jobs that are compared. Its series are read when the job is known, and followed if it has not ended by
 * then: no topic of the stream is spent on one that has, and none on one that is gone, which the head would refuse.
 */
export class ComparedJob implements Follower {
  readonly topics: string[];
  readonly job = new Resource<Job>();
  /** Null until the job is known. */
  readonly series = signal<Metrics | null>(null);
  /** Names of all series that the job has. */
  readonly names = signal<readonly string[]>([]);
  /** There is no such job, or no longer. */
  readonly gone = signal(false);
  private readonly path: string;
  private unfollow: (() => void) | null = null;

  constructor(
    readonly id: string,
    private readonly points: number,
    private readonly follow: Follow,
    private readonly shown: () => Shown,
  ) {
    this.topics = [`job:${id}`];
    this.path = `/api/v1/jobs/${encodeURIComponent(id)}`;
  }

  /** The job as it is shown; null where there is none. */
  get present(): Job | null {
    return this.gone.value ? null : this.job.data.value;
  }

  get error(): ApiError | null {
    if (this.gone.value) return null;
    return this.job.error.value ?? this.series.value?.history.error.value ?? null;
  }

  async load(): Promise<void> {
    if (this.gone.value) return;
    const taken = await this.job.load((signal) => get<Job>(this.path, {}, signal));
    if (this.job.error.value?.status === 404) this.lose();
    const job = this.job.data.value;
    if (!taken || job === null || this.unfollow !== null) return;
    if (!isTerminal(job.state)) this.unfollow = this.follow(this);
    else if (this.series.value?.history.data.value == null) void this.loadSeries();
  }

  /** Reads again what could not be read. */
  retry(): void {
    if (this.job.error.value !== null) void this.load();
    else void this.loadSeries();
  }

  /** The job as the stream tells it. */
  took(record: JobRecord): void {
    if (isRemoved(record)) this.lose();
    else this.job.add(({ workers }) => ({ ...record, ...(workers && { workers }) }));
  }

  fresh(): void {
    void this.loadSeries();
  }

  record(kind: string, data: unknown): void {
    if (kind !== 'metrics') return;
    const { points, restarts } = data as MetricsRecord;
    this.learn(points.flatMap(([name, worker]) => (worker === null ? [name] : [])));
    this.series.value?.append(points, restarts);
  }

  /** Nothing is read or followed any more. */
  stop(): void {
    this.job.cancel();
    this.series.value?.cancel();
    this.unfollow?.();
    this.unfollow = null;
  }

  private lose(): void {
    this.gone.value = true;
    this.stop();
  }

  private async loadSeries(): Promise<void> {
    const { names, axis, zoom } = this.shown();
    this.series.value ??= new Metrics(
      (query, signal) => get<Answer>(`${this.path}/metrics`, { ...query }, signal),
      this.points,
      { names, worker: 'job', axis, zoom },
    );
    void this.loadNames();
    await this.series.value.load();
  }

  /** One point of each series tells which there are. */
  private async loadNames(): Promise<void> {
    try {
      const { series } = await get<Answer>(`${this.path}/metrics`, { worker: 'job', points: 1 });
      this.learn(series.map(({ name }) => name));
    } catch {
      // The series themselves could not be read either: that is said.
    }
  }

  private learn(names: readonly string[]): void {
    const known = new Set([...this.names.value, ...names]);
    if (known.size > this.names.value.length) this.names.value = [...known];
  }
}

/** Several jobs beside each other, as far as there are such jobs. */
export class Comparison implements Follower {
  /** Whatever becomes of the jobs; series have topics of their own. */
  readonly topics = ['jobs'];
  readonly jobs = signal<readonly ComparedJob[]>([]);
  readonly axis = signal<MetricsAxis>('step');
  readonly zoom = signal<Zoom | null>(null);
  /** Moves when a point of any series has come. */
  readonly version = computed(() =>
    this.jobs.value.reduce((sum, { series }) => sum + (series.value?.version.value ?? 0), 0),
  );
  private names: readonly string[] = [];
  /** The jobs have been read once, or are being read. */
  private begun = false;

  constructor(
    private readonly points: number,
    private readonly follow: Follow,
  ) {}

  /** Compares these jobs. Those that are known stay known. */
  show(ids: readonly string[]): void {
    const before = new Map(this.jobs.value.map((job) => [job.id, job]));
    const shown = () => ({ names: this.names, axis: this.axis.value, zoom: this.zoom.value });
    const jobs = ids.map((id) => before.get(id) ?? new ComparedJob(id, this.points, this.follow, shown));
    for (const job of before.values()) if (!jobs.includes(job)) job.stop();
    this.jobs.value = jobs;
    if (this.begun) for (const job of jobs) if (!before.has(job.id)) void job.load();
  }

  /** Follows the jobs. The result ends it. */
  begin(): () => void {
    const unfollow = this.follow(this);
    return () => {
      unfollow();
      this.begun = false;
      for (const job of this.jobs.value) job.stop();
    };
  }

  fresh(): void {
    this.begun = true;
    for (const job of this.jobs.value) void job.load();
  }

  record(kind: string, data: unknown): void {
    if (!isJobRecord(kind)) return;
    const record = data as JobRecord;
    this.jobs.value.find(({ id }) => id === record.id)?.took(record);
  }

  async setAxis(axis: MetricsAxis): Promise<void> {
    if (axis === this.axis.value) return;
    this.axis.value = axis;
    this.zoom.value = null;
    await this.each((series) => series.setAxis(axis));
  }

  async setZoom(zoom: Zoom | null): Promise<void> {
    this.zoom.value = zoom;
    await this.each((series) => series.setZoom(zoom));
  }

  async setNames(names: readonly string[]): Promise<void> {
    this.names = names;
    await this.each((series) => series.setNames(names));
  }

  private async each(change: (series: Metrics) => Promise<void>): Promise<void> {
    await Promise.all(this.jobs.value.map(({ series }) => series.value && change(series.value)));
  }
}
