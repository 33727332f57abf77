import { useSignal } from '@preact/signals';
import { ApiError } from '../api/client';
import { isTerminal, type Job } from '../api/types';
import { otherLabels } from '../charts/pushes';
import { bytes, count, elapsed, number, percent, ratio, span, time, timeLeft, type Watched } from '../format';
import { navigate, route } from '../router';
import { now } from '../state/clock';
import type { JobPage } from '../state/job';
import { Icon, icons, StateBadge } from './icons';
import { Progress } from './job_table';
import { Timeline } from './timeline';
import { Confirm, CopyButton, ErrorPanel, Stat } from './ui';

export function JobHeader({ page, job }: { page: JobPage; job: Job }) {
  const asking = useSignal<'stop' | 'delete' | null>(null);
  const failure = useSignal<ApiError | null>(null);
  const run = async (action: () => Promise<void>) => {
    try {
      await action();
    } catch (error) {
      failure.value = error instanceof ApiError ? error : new ApiError(String(error), 0, null);
    }
  };
  const ask = (what: 'stop' | 'delete' | null) => {
    failure.value = null;
    asking.value = what;
  };
  const ended = isTerminal(job.state);
  const close = () => {
    asking.value = null;
  };
  return (
    <>
      <div class="page-head job-head">
        <div>
          <p class="crumb">
            <a href="/jobs">Jobs</a> / <span class="mono">{job.id}</span> <CopyButton text={job.id} />
          </p>
          <h1>
            {job.name || job.id} <StateBadge state={job.state} phase={job.phase} />
          </h1>
        </div>
        <div class="buttons">
          <button
            type="button"
            disabled={ended || job.phase === 'stopping'}
            title={ended ? 'It has ended' : ''}
            onClick={() => ask('stop')}
          >
            <Icon path={icons.stop} /> Stop
          </button>
          <a class="button" href={`/submit?from=${encodeURIComponent(job.id)}`}>
            <Icon path={icons.again} /> Resubmit
          </a>
          <button
            type="button"
            disabled={!ended}
            title={ended ? '' : 'Only a job that has ended can be deleted'}
            onClick={() => ask('delete')}
          >
            <Icon path={icons.trash} /> Delete
          </button>
        </div>
      </div>
      {failure.value && <ErrorPanel error={failure.value} retry={() => ask(null)} action="Dismiss" />}
      {job.reason !== null && job.reason !== '' && (
        <p class={`reason reason-${job.state.toLowerCase()}`}>
          <b>{job.state === 'FAILED' ? 'Failed' : job.state === 'PENDING' ? 'Waiting' : 'Note'}:</b> {job.reason}
        </p>
      )}
      <Figures job={job} watched={page.watched} />
      <Timeline job={job} events={page.events.data.value ?? []} />
      {asking.value === 'stop' && (
        <Confirm
          title={`Stop ${job.name || job.id}?`}
          action="Stop the job"
          danger
          onClose={close}
          onConfirm={() => void run(() => page.stop())}
        >
          <p>All workers stop after the step they agree on, and a checkpoint is taken there.</p>
        </Confirm>
      )}
      {asking.value === 'delete' && (
        <Confirm
          title={`Delete ${job.name || job.id}?`}
          action="Delete for ever"
          danger
          onClose={close}
          onConfirm={() =>
            void run(async () => {
              const here = route.value.path;
              await page.remove();
              if (route.value.path === here) navigate('/jobs', 'replace');
            })
          }
        >
          <p>Its metrics, logs and checkpoints are deleted with it. This cannot be undone.</p>
        </Confirm>
      )}
    </>
  );
}

function Figures({ job, watched }: { job: Job; watched: Watched | null }) {
  const { summary } = job;
  const { bytes_sent: sent, bytes_dense: dense } = otherLabels(job);
  const ran = elapsed(job.started_at, job.ended_at, now.value);
  const left = job.state === 'RUNNING' ? timeLeft(job.step, job.steps_total, watched, now.value) : null;
  return (
    <div class="stats">
      <Stat
        name="Step"
        value={
          <>
            {count(job.step)} <small>of {count(job.steps_total)}</small>
          </>
        }
        note={<Progress job={job} />}
      />
      <Stat
        name="Test accuracy"
        value={percent(summary.accuracy)}
        note={summary.loss == null ? null : `training loss ${number(summary.loss)}`}
      />
      <Stat
        name="Throughput"
        value={
          <>
            {number(summary.samples_per_second)} <small>samples/s</small>
          </>
        }
      />
      <Stat
        name={`Bytes ${sent?.label ?? 'sent'}`}
        value={bytes(summary.bytes_sent)}
        note={
          <span title={dense?.title}>
            {dense?.label ?? 'dense ring'} {bytes(summary.bytes_dense)}
          </span>
        }
      />
      <Stat
        name={`Less than ${dense?.label ?? 'dense'}`}
        value={ratio(summary.compression_ratio)}
        note={afterWarmup(job)}
      />
      <Stat
        name="Ran for"
        value={ran === null ? '–' : span(ran)}
        note={left ?? (job.started_at === null ? 'not started' : `from ${time(job.started_at)}`)}
      />
    </div>
  );
}

function afterWarmup({ summary }: Job): string | null {
  const sent = summary.bytes_sent_after_warmup;
  const dense = summary.bytes_dense_after_warmup;
  return sent && dense ? `${ratio(dense / sent)} after the warm-up` : null;
}
