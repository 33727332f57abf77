import { get } from '../api/client';
import type { Trace, Traffic } from '../api/types';
import { Resource } from './resource';

export type TraceStep = 'sampled' | 'slowest';

/** How often it is read again while the job runs: workers report every one or two seconds. */
export const trafficInterval = 2000;

/** What the workers of a job have exchanged, and what one of them did in one step. */
export class JobTraffic {
  readonly totals = new Resource<Traffic>();
  /** Of one worker and step, which a page that has just chosen others must know. */
  readonly trace = new Resource<{ worker: number; step: TraceStep; trace: Trace }>();
  private readonly path: string;
  private shown = '';

  constructor(id: string) {
    this.path = `/api/v1/jobs/${encodeURIComponent(id)}`;
  }

  /**
   * Reads both, or the totals alone where `step` is null. A request for the same that is still under way is left to
   * end, however slow the line, unless they are wanted `anew`: its answer may be from before the end of the job.
   */
  load(worker: number, step: TraceStep | null, anew = false): void {
    const shown = `${worker} ${step}`;
    if (!anew && shown === this.shown && (this.totals.loading.value || this.trace.loading.value)) return;
    this.shown = shown;
    void this.totals.load((signal) => get<Traffic>(`${this.path}/traffic`, {}, signal));
    if (step === null) return;
    void this.trace.load(async (signal) => ({
      worker,
      step,
      trace: await get<Trace>(`${this.path}/trace`, { worker, step }, signal),
    }));
  }

  /** Where the trace of all workers can be downloaded. */
  traceHref(step: TraceStep): string {
    return `${this.path}/trace?step=${step}`;
  }
}
