import type { ExchangePlan, Job, Trace, TraceEvent, Traffic } from '../api/types';
import { getAt } from '../forms/pointer';
import { bytes, count, seconds } from '../format';
import { byRole, type RankRole } from '../ranks';

/** Who has sent how much to whom. */
export interface Matrix {
  ranks: number[];
  /** Bytes by sender and receiver, in the order of `ranks`; null where none has been counted. */
  cells: (number | null)[][];
  most: number;
  /** Workers that are not shown, because others have moved more. */
  left: number;
}

/** More cannot be read at once, nor drawn in no time. */
export const matrixMax = 64;

/** The sender's count is shown; the receiver's, where the sender has not reported. Of many workers, the busiest. */
export function matrixOf({ links }: Pick<Traffic, 'links'>): Matrix {
  const moved = new Map<number, number>();
  for (const { from, to, bytes_sent, bytes_received } of links) {
    const bytes = bytes_sent ?? bytes_received ?? 0;
    for (const rank of [from, to]) moved.set(rank, (moved.get(rank) ?? 0) + bytes);
  }
  const ranks = [...moved.keys()]
    .sort((a, b) => moved.get(b)! - moved.get(a)!)
    .slice(0, matrixMax)
    .sort((a, b) => a - b);
  const places = new Map(ranks.map((rank, place) => [rank, place]));
  const cells = ranks.map(() => ranks.map((): number | null => null));
  let most = 0;
  for (const { from, to, bytes_sent, bytes_received } of links) {
    const [row, column] = [places.get(from), places.get(to)];
    if (row === undefined || column === undefined) continue;
    const bytes = bytes_sent ?? bytes_received;
    cells[row]![column] = bytes;
    most = Math.max(most, bytes ?? 0);
  }
  return { ranks, cells, most, left: moved.size - ranks.length };
}

/**
 * What there is to read of a job's traffic: nothing where one worker trains by itself; where workers push to servers,
 * whose steps have no buckets, only totals.
 */
export function readableTraffic({ spec, workers }: Pick<Job, 'spec' | 'workers'>): 'nothing' | 'totals' | 'steps' {
  if (getAt(spec, '/training/mode') === 'local') return 'nothing';
  return workers?.some(({ role }) => role === 'server') ? 'totals' : 'steps';
}

/** The ranks whose steps have buckets: the workers, unless they push to servers. */
export function ranksWithBuckets(
  { workers }: { workers: readonly { worker: number }[] },
  ranks: readonly RankRole[],
): number[] {
  const roles = byRole(ranks);
  if (roles.has('server')) return [];
  const stateServers = roles.get('state_server') ?? [];
  return workers.map(({ worker }) => worker).filter((rank) => !stateServers.includes(rank));
}

/** A row of a table with bars. */
export interface BarRow {
  name: string;
  bars: number[];
  cells: string[];
  /** What sets the row apart. */
  mark?: string;
}

/** Bytes by name, with a bar for what was sent and received together. */
export function byteRows(list: Traffic['phases']): BarRow[] {
  return list.map(({ name, bytes_sent, bytes_received }) => ({
    name,
    bars: [bytes_sent + bytes_received],
    cells: [bytes(bytes_sent), bytes(bytes_received)],
  }));
}

export function routeRows({ routes }: Pick<ExchangePlan, 'routes'>): BarRow[] {
  return routes.map(({ form, topology, buckets, bytes: size }) => ({
    name: `${form} over ${topology}`,
    bars: [size],
    cells: [count(buckets), bytes(size)],
  }));
}

/** The time of a step, as predicted and, where it was tried, as measured. */
export function candidateRows({ candidates }: Pick<ExchangePlan, 'candidates'>): BarRow[] {
  return candidates.map(({ routes, predicted_seconds, measured_seconds, followed }) => ({
    name: routes,
    bars: [predicted_seconds, measured_seconds ?? 0],
    cells: [seconds(predicted_seconds), seconds(measured_seconds)],
    ...(followed && { mark: 'followed' }),
  }));
}

export const activities = ['encode', 'wait', 'wire', 'decode'] as const;
export type Activity = (typeof activities)[number];

/** Something that a bucket did, in seconds since the step began. */
export interface Span {
  activity: Activity;
  /** dense, pass 1, ...; "" for a wait. */
  part: string;
  begin: number;
  seconds: number;
  sent: number;
  received: number;
}

export interface StepRows {
  step: number;
  seconds: number;
  dropped: number;
  /** By bucket, each in order of time. */
  buckets: { bucket: number; spans: Span[] }[];
}

/** One worker's step from the trace; null if the trace has none of it. */
export function stepOf(trace: Trace, worker: number): StepRows | null {
  const about = trace.otherData.steps.find((step) => step.worker === worker);
  if (about === undefined) return null;
  const buckets = new Map<number, Span[]>();
  const waits = new Map<string, TraceEvent>();
  const add = (event: TraceEvent, end: number) => {
    const bucket = event.args?.bucket ?? 0;
    const spans = buckets.get(bucket) ?? [];
    buckets.set(bucket, spans);
    const begin = event.ts ?? 0;
    spans.push({
      activity: event.cat ?? 'wire',
      part: event.args?.part ?? '',
      begin: begin / 1e6,
      seconds: (end - begin) / 1e6,
      sent: event.args?.bytes_sent ?? 0,
      received: event.args?.bytes_received ?? 0,
    });
  };
  for (const event of trace.traceEvents) {
    if (event.pid !== worker + 1) continue; // no process has the number 0
    if (event.ph === 'X') add(event, (event.ts ?? 0) + (event.dur ?? 0));
    if (event.ph === 'b') waits.set(event.id ?? '', event);
    const begun = event.ph === 'e' ? waits.get(event.id ?? '') : undefined;
    if (begun !== undefined) add(begun, event.ts ?? 0);
  }
  const { step, seconds, dropped } = about;
  return {
    step,
    seconds,
    dropped,
    buckets: [...buckets]
      .sort(([a], [b]) => a - b)
      .map(([bucket, spans]) => ({ bucket, spans: spans.sort((a, b) => a.begin - b.begin) })),
  };
}

/** The time that the spans of one kind take together. */
export function secondsOf(spans: readonly Span[], activity: Activity): number {
  return spans.reduce((sum, span) => sum + (span.activity === activity ? span.seconds : 0), 0);
}
