import { signal, type Signal } from '@preact/signals';
import { axisValue, Series } from '../charts/series';
import type { LivePoint, Metrics as MetricsAnswer, MetricsAxis } from '../api/types';
import { Resource } from './resource';

export interface Zoom {
  from: number;
  to: number;
}

export interface MetricsQuery {
  worker: string;
  x: MetricsAxis;
  from?: number;
  to?: number;
  points: number;
  /** Names with commas between; without it all of them. */
  name?: string;
}
export type ReadMetrics = (query: MetricsQuery, signal: AbortSignal) => Promise<MetricsAnswer>;

/** `null` is the whole job. */
type Key = string;
const keyOf = (name: string, worker: number | null): Key => `${name}/${worker ?? 'job'}`;
const isOfJob = (key: Key) => key.endsWith('/job');

/** Which series are read and kept. */
export interface Scope {
  /** These alone; null: all that there are. */
  names: readonly string[] | null;
  /** The whole job's, or those of every rank as well. */
  worker: 'job' | 'all';
  /** The axis to begin with. */
  axis: MetricsAxis;
  /** The stretch to begin with. */
  zoom: Zoom | null;
}

/** So many points are kept of all ranks together, and at most twice as many: where there are many ranks, coarser. */
export const pointsMax = 100_000;

/**
 * A job's time series on one axis: the whole history once, down-sampled by the head to the chart's width, then only
 * what the stream brings. A zoomed stretch is read once more at full detail and kept beside the whole.
 */
export class Metrics {
  /** Counts changes: a chart draws anew when it moves. */
  readonly version = signal(0);
  readonly axis: Signal<MetricsAxis>;
  readonly zoom: Signal<Zoom | null>;
  readonly history = new Resource<MetricsAnswer>();
  private readonly detail = new Resource<MetricsAnswer>();
  private readonly whole = new Map<Key, Series>();
  private readonly part = new Map<Key, Series>();
  private worker: Scope['worker'];
  private names: Scope['names'];
  private restarts = 0;
  /** Series that have had points since the job's last restart. */
  private readonly begunAgain = new Set<Key>();

  /**
   * `points`: the charts' width in pixels, since more than one point per pixel shows nothing. Without a scope it is
   * about all series of the whole job.
   */
  constructor(
    private readonly read: ReadMetrics,
    private readonly points: number,
    { names = null, worker = 'job', axis = 'step', zoom = null }: Partial<Scope> = {},
  ) {
    this.names = names;
    this.worker = worker;
    this.axis = signal(axis);
    this.zoom = signal(zoom);
  }

  /** The line to draw, from the zoomed stretch if there is one. */
  line(name: string, worker: number | null): Series {
    return this.series(this.zoom.value === null ? this.whole : this.part, keyOf(name, worker));
  }

  /** Ranks that have a series of this name, ascending. */
  workers(name: string): number[] {
    const ranks: number[] = [];
    for (const key of this.whole.keys()) {
      const [of, worker] = key.split('/');
      if (of === name && worker !== 'job') ranks.push(Number(worker));
    }
    return ranks.sort((a, b) => a - b);
  }

  /** Reads the whole history. */
  async load(): Promise<void> {
    const query = this.query();
    for (const line of this.whole.values()) line.askHistory();
    if (await this.history.load((signal) => this.read(query, signal))) {
      this.take(this.whole, this.history.data.value);
      if (this.zoom.value !== null) await this.loadZoom(this.zoom.value);
    }
  }

  /** Nothing is read any more. */
  cancel(): void {
    this.history.cancel();
    this.detail.cancel();
  }

  async setAxis(axis: MetricsAxis): Promise<void> {
    if (axis === this.axis.value) return;
    this.axis.value = axis;
    this.zoom.value = null;
    this.whole.clear();
    await this.load();
  }

  /** Whether the series of each rank are read and kept as well as the whole job's. */
  async setWorkers(all: boolean): Promise<void> {
    const worker = all ? 'all' : 'job';
    if (worker === this.worker) return;
    this.worker = worker;
    if (!all) {
      for (const known of [this.whole, this.part, this.begunAgain]) {
        for (const key of known.keys()) if (!isOfJob(key)) known.delete(key);
      }
    }
    await this.load();
  }

  /** Reads these series from now on, and forgets the others. */
  async setNames(names: readonly string[]): Promise<void> {
    const before = this.names;
    if (names.join() === before?.join()) return;
    this.names = names;
    for (const known of [this.whole, this.part, this.begunAgain]) {
      for (const key of known.keys()) if (!names.includes(key.slice(0, key.lastIndexOf('/')))) known.delete(key);
    }
    ++this.version.value;
    if (names.some((name) => !before?.includes(name))) await this.load();
  }

  async setZoom(zoom: Zoom | null): Promise<void> {
    if (zoom === null) {
      if (this.zoom.value === null) return;
      this.zoom.value = null;
      this.detail.cancel();
      this.part.clear();
      ++this.version.value;
      return;
    }
    await this.loadZoom(zoom);
  }

  /** `restarts`: of the job, when the points were measured. */
  append(points: readonly LivePoint[], restarts = 0): void {
    if (restarts !== this.restarts) this.begunAgain.clear();
    this.restarts = restarts;
    const axis = this.axis.value;
    const repeats = axis === 'bytes';
    const zoom = this.zoom.value;
    let changed = false;
    for (const point of points) {
      const [name, worker, , , , value] = point;
      if (worker !== null && this.worker === 'job') continue;
      if (this.names !== null && !this.names.includes(name)) continue;
      const x = axisValue(point, axis);
      const key = keyOf(name, worker);
      // Time and bytes go on through a restart; steps go back to a checkpoint.
      if (restarts > 0 && axis === 'step' && !this.begunAgain.has(key)) {
        this.begunAgain.add(key);
        this.series(this.whole, key).rewind(x);
        this.part.get(key)?.rewind(x);
      }
      changed = this.series(this.whole, key).append(x, value, repeats) || changed;
      if (zoom !== null && x >= zoom.from && x <= zoom.to) this.series(this.part, key).append(x, value, repeats);
    }
    if (changed) ++this.version.value;
  }

  private query(): MetricsQuery {
    const all = { worker: this.worker, x: this.axis.value, points: this.points };
    return this.names === null ? all : { ...all, name: this.names.join(',') };
  }

  private async loadZoom(zoom: Zoom): Promise<void> {
    const query = { ...this.query(), ...zoom };
    // The whole is cut to the stretch at once; the finer points replace it when they are there.
    this.part.clear();
    for (const [key, line] of this.whole) {
      const inside = line.points.filter(({ x }) => x >= zoom.from && x <= zoom.to);
      this.series(this.part, key).setHistory(inside.map(({ x, min, max, last }) => [x, min, max, last]));
    }
    for (const line of this.part.values()) line.askHistory();
    this.zoom.value = zoom;
    ++this.version.value;
    if (await this.detail.load((signal) => this.read(query, signal))) this.take(this.part, this.detail.data.value);
  }

  private take(into: Map<Key, Series>, answer: MetricsAnswer | null): void {
    if (answer === null || answer.x !== this.axis.value) return;
    const lines = answer.series.map((of) => ({ ...of, line: this.series(into, keyOf(of.name, of.worker)) }));
    const answered = new Set(lines.map(({ line }) => line));
    // What the head has nothing of has no past, as when a job begins anew.
    for (const line of into.values()) if (!answered.has(line)) line.setHistory([]);
    for (const { line, points } of lines) line.setHistory(points);
    ++this.version.value;
  }

  private series(map: Map<Key, Series>, key: Key): Series {
    let found = map.get(key);
    if (found === undefined) {
      const share = () => Math.max(2, Math.min(this.points, Math.floor(pointsMax / map.size)));
      found = new Series(isOfJob(key) ? () => this.points : share);
      map.set(key, found);
    }
    return found;
  }
}
