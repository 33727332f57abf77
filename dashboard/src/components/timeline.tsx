import type { Event, Job } from '../api/types';
import { span, time } from '../format';
import { now } from '../state/clock';

export interface Stretch {
  state: 'pending' | 'running';
  from: number;
  to: number;
}

/** The times a job spent waiting and running, from its own record. */
export function stretches(job: Pick<Job, 'created_at' | 'started_at' | 'ended_at'>, at: number): Stretch[] {
  const created = Date.parse(job.created_at);
  const ended = job.ended_at === null ? Math.max(at, created) : Date.parse(job.ended_at);
  const started = job.started_at === null ? ended : Date.parse(job.started_at);
  const all: Stretch[] = [
    { state: 'pending', from: created, to: started },
    { state: 'running', from: started, to: ended },
  ];
  return all.filter(({ from, to }) => to > from);
}

/** Waiting, running and the end on one line, with a mark for every warning and error. */
export function Timeline({ job, events }: { job: Job; events: readonly Event[] }) {
  const parts = stretches(job, now.value);
  const from = parts[0]?.from ?? 0;
  const whole = Math.max(1, (parts.at(-1)?.to ?? 0) - from);
  const marks = events.filter(({ severity }) => severity !== 'info');
  return (
    <div class="timeline">
      <div class="timeline-bar">
        {parts.map((part) => (
          <div
            key={part.state}
            class={`timeline-part timeline-${part.state}`}
            style={{ flexGrow: (part.to - part.from) / whole }}
            title={`${part.state} from ${time(new Date(part.from).toISOString())} for ${span(part.to - part.from)}`}
          />
        ))}
        {marks.map((event) => (
          <span
            key={event.id}
            class={`timeline-mark mark-${event.severity}`}
            title={`${time(event.at)} ${event.message}`}
            style={{ left: `${Math.min(1, Math.max(0, (Date.parse(event.at) - from) / whole)) * 100}%` }}
          />
        ))}
      </div>
      <ol>
        <li>
          <b>created</b> {time(job.created_at)}
        </li>
        {job.started_at !== null && (
          <li>
            <b>started</b> after {span(Date.parse(job.started_at) - Date.parse(job.created_at))}
          </li>
        )}
        {job.ended_at !== null ? (
          <li>
            <b>{job.state.toLowerCase()}</b> {time(job.ended_at)}
          </li>
        ) : (
          <li>
            <b>{job.phase || job.state.toLowerCase()}</b> now
          </li>
        )}
      </ol>
    </div>
  );
}
