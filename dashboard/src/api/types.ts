/** The API's nouns, by the names of the OpenAPI document (`npm run types` makes schema.d.ts from it). */
import type { components } from './schema';

type Schemas = components['schemas'];

export type ActorList = Schemas['ActorList'];
export type Catalog = Schemas['Catalog'];
export type CatalogEntry = Schemas['CatalogEntry'];
export type Checkpoint = Schemas['Checkpoint'];
export type CheckpointList = Schemas['CheckpointList'];
export type Event = Schemas['Event'];
export type EventList = Schemas['EventList'];
export type ExchangePlan = Schemas['ExchangePlan'];
export type Gpu = Schemas['Gpu'];
export type Job = Schemas['Job'];
export type JobList = Schemas['JobList'];
export type JobState = Schemas['JobState'];
export type LogChunk = Schemas['LogChunk'];
export type Metrics = Schemas['Metrics'];
export type MetricsAxis = Schemas['MetricsAxis'];
export type Node = Schemas['Node'];
export type NodeList = Schemas['NodeList'];
export type Problem = Schemas['Problem'];
export type Role = Schemas['Role'];
export type Summary = Schemas['Summary'];
export type Trace = Schemas['Trace'];
export type TraceEvent = Schemas['TraceEvent'];
export type Traffic = Schemas['Traffic'];
export type ValidateResult = Schemas['ValidateResult'];
export type Version = Schemas['Version'];
export type Warning = Schemas['Warning'];
export type Worker = Schemas['Worker'];

/** A job spec as the user writes it: any JSON object; the head says what is wrong with it. */
export type Spec = Record<string, unknown>;

/** One live value of a job's time series, as the stream's `metrics` record carries it. */
export type LivePoint = [
  name: string,
  worker: number | null,
  step: number,
  wallSeconds: number,
  wireBytes: number,
  value: number | null,
];
export interface MetricsRecord {
  job: string;
  /** How often the job had been restarted when these were measured. */
  restarts: number;
  points: LivePoint[];
}
/** What the stream's records about a job carry: the job as it is now, or which one was removed. */
export type JobRecord = Job | Removed;
/** The same of a node: one that was lost may be forgotten. */
export type NodeRecord = Node | Removed;
export interface Removed {
  id: string;
  state?: never;
}

export function isJobRecord(kind: string): boolean {
  return kind === 'job' || kind === 'job_end' || kind === 'job_removed';
}

export function isNodeRecord(kind: string): boolean {
  return kind === 'node' || kind === 'node_removed';
}

export function isRemoved(record: JobRecord | NodeRecord): record is Removed {
  return record.state === undefined;
}

export interface LogRecord {
  job: string;
  worker: number;
  offset: number;
  text: string;
}

export const jobStates: readonly JobState[] = ['PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'STOPPED'];

export function isTerminal(state: JobState): boolean {
  return state === 'SUCCEEDED' || state === 'FAILED' || state === 'STOPPED';
}
