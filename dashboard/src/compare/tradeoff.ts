import { isTerminal, type Job } from '../api/types';
import { elapsed } from '../format';
import { front, type Place } from './pareto';
import type { Cost } from './query';

/** A job and how it is shown beside the others, on every part of the page. */
export interface Entry {
  job: Job;
  label: string;
  /** Its line style. */
  style: number;
}

export interface Spot extends Place, Entry {
  /** What it costs and gains is final. */
  ended: boolean;
}

export interface Tradeoff {
  spots: Spot[];
  /** Those of the spots that are on the Pareto front, the cheapest first. What is not final is on none. */
  front: Spot[];
  /** Jobs without a place, and why. */
  left: { label: string; why: string }[];
}

/** What accuracy each job has come to for what. `now`: in milliseconds since the epoch. */
export function tradeoffOf(entries: readonly Entry[], cost: Cost, now: number): Tradeoff {
  const spots: Spot[] = [];
  const left: Tradeoff['left'] = [];
  for (const entry of entries) {
    const { job, label } = entry;
    const gain = job.summary.accuracy ?? null;
    const paid = costOf(job, cost, now);
    if (gain === null) left.push({ label, why: 'no accuracy' });
    else if (!paid) left.push({ label, why: cost === 'bytes' ? 'nothing sent' : 'not started' });
    else spots.push({ ...entry, gain, cost: paid, ended: isTerminal(job.state) });
  }
  const ended = spots.filter((spot) => spot.ended);
  return { spots, front: front(ended).map((index) => ended[index]!), left };
}

function costOf(job: Job, cost: Cost, now: number): number | null {
  if (cost === 'bytes') return job.summary.bytes_sent ?? null;
  const ran = elapsed(job.started_at, job.ended_at, now);
  return ran === null ? null : ran / 1000;
}
