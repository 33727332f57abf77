import type { Job } from '../api/types';
import { bytes, count, elapsed, percent, ratio, span } from '../format';
import { picksMax } from '../compare/picks';
import { getAt } from '../forms/pointer';
import { now } from '../state/clock';
import { StateBadge } from './icons';
import { Ago, Empty } from './ui';

/** The jobs that are ticked, to be compared. */
export interface Picks {
  ids: readonly string[];
  toggle: (id: string) => void;
}

/** `short` leaves out what the overview has no room for; with `picks` rows can be ticked. */
export function JobTable({ jobs, short, picks }: { jobs: readonly Job[]; short?: boolean; picks?: Picks }) {
  if (jobs.length === 0) {
    return (
      <Empty title="No jobs" command="weir submit job.json --follow">
        <a href="/submit">Submit one here</a>, or from a shell:
      </Empty>
    );
  }
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Jobs">
      <table class="rows">
        <thead>
          <tr>
            <th>Name</th>
            <th>State</th>
            <th>Progress</th>
            {!short && (
              <>
                <th>Model</th>
                <th>Compressor</th>
                <th class="num">Workers</th>
              </>
            )}
            <th class="num">Accuracy</th>
            {!short && (
              <>
                <th class="num">Sent</th>
                <th class="num">Ratio</th>
                <th class="num">Ran</th>
              </>
            )}
            <th class="num">Created</th>
            {!short && (
              <th>
                <span class="hidden">Logs</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <Row key={job.id} job={job} short={short ?? false} picks={picks} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ job, short, picks }: { job: Job; short: boolean; picks: Picks | undefined }) {
  const href = `/jobs/${encodeURIComponent(job.id)}`;
  const ran = elapsed(job.started_at, job.ended_at, now.value);
  const named = (pointer: string) => String(getAt(job.spec, pointer) ?? '–');
  return (
    <tr data-row>
      <td>
        {picks && (
          <input
            type="checkbox"
            class="pick"
            aria-label={`Compare ${job.name || job.id}`}
            checked={picks.ids.includes(job.id)}
            disabled={picks.ids.length >= picksMax && !picks.ids.includes(job.id)}
            onChange={() => picks.toggle(job.id)}
          />
        )}
        <a href={href} title={job.name || job.id}>
          {job.name || job.id}
        </a>
      </td>
      <td title={job.reason ?? ''}>
        <StateBadge state={job.state} phase={job.state === 'RUNNING' ? job.phase : ''} />
      </td>
      <td>
        <Progress job={job} />
      </td>
      {!short && (
        <>
          <td>{named('/model/name')}</td>
          <td>{named('/compression/name')}</td>
          <td class="num">{named('/resources/workers')}</td>
        </>
      )}
      <td class="num">{percent(job.summary.accuracy)}</td>
      {!short && (
        <>
          <td class="num">{bytes(job.summary.bytes_sent)}</td>
          <td class="num">{ratio(job.summary.compression_ratio)}</td>
          <td class="num">{ran === null ? '–' : span(ran)}</td>
        </>
      )}
      <td class="num">
        <Ago at={job.created_at} />
      </td>
      {!short && (
        <td>
          <a href={`${href}?tab=logs`} aria-label={`Logs of ${job.name || job.id}`}>
            logs
          </a>
        </td>
      )}
    </tr>
  );
}

/** How far a job is. Until its workers have seen the dataset nobody knows of how much. */
export function Progress({ job }: { job: Job }) {
  const total = job.steps_total;
  const share = total === null ? null : total > 0 ? Math.min(1, job.step / total) : 1;
  return (
    <div
      class={`progress progress-${job.state.toLowerCase()}`}
      role="progressbar"
      aria-label={`Steps of ${job.name}`}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={share === null ? undefined : Math.round(share * 100)}
      title={`${count(job.step)} of ${count(total)} steps`}
    >
      <div style={{ width: `${(share ?? 0) * 100}%` }} />
    </div>
  );
}
