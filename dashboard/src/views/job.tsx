import type { Job } from '../api/types';
import { EventTable } from '../components/events';
import { Checkpoints } from '../components/checkpoints';
import { JobHeader } from '../components/job_header';
import { Later } from '../components/later';
import { LogView } from '../components/log_view';
import { Card, CopyButton, Empty, ErrorPanel, Skeleton } from '../components/ui';
import { Warnings } from '../components/validate_result';
import { WorkerTable } from '../components/worker_table';
import { chartPoints } from '../charts/width';
import { getAt } from '../forms/pointer';
import { rankNames } from '../ranks';
import { route } from '../router';
import { eventsMax, JobPage } from '../state/job';
import { useFollower, useTitle } from '../state/hooks';
import { Part } from '../state/part';
import { warned } from '../state/warned';

/** The larger half of the dashboard: it is fetched when a job is first looked at. */
const parts = new Part(() => import('../components/job_parts'));

const tabs = [
  { id: '', label: 'Training' },
  { id: 'mode', label: 'Mode' },
  { id: 'traffic', label: 'Traffic' },
  { id: 'logs', label: 'Logs' },
  { id: 'events', label: 'Events' },
  { id: 'checkpoints', label: 'Checkpoints' },
  { id: 'spec', label: 'Spec' },
];

export function JobView({ id }: { id: string }) {
  const page = useFollower(() => new JobPage(id, chartPoints()), id);
  const job = page.job.data.value;
  const error = page.job.error.value;
  useTitle(job?.name || `Job ${id}`);
  if (job !== null && page.gone.value) {
    return (
      <Empty title={`${job.name || id} was removed`}>
        With its metrics, logs and checkpoints. <a href="/jobs">Back to the jobs</a>
      </Empty>
    );
  }
  if (job === null) {
    if (error?.status === 404) {
      return (
        <Empty title={`There is no job ${id}`} command="weir job list">
          It may have been deleted.
        </Empty>
      );
    }
    if (error !== null) return <ErrorPanel error={error} retry={() => page.fresh()} />;
    return (
      <Card>
        <Skeleton rows={10} />
      </Card>
    );
  }
  const ranks = job.workers ?? [];
  const nameOf = rankNames(ranks);
  const { query } = route.value;
  const tab = query.get('tab') ?? '';
  const events = page.events.data.value?.length ?? 0;
  const counts: Record<string, string | number | undefined> = {
    events: events < eventsMax ? events : `${eventsMax}+`, // older ones are not read
    checkpoints: page.checkpoints.data.value?.length,
  };
  const href = (to: string) => {
    const next = new URLSearchParams(query);
    if (to === '') next.delete('tab');
    else next.set('tab', to);
    const text = next.toString();
    return `/jobs/${encodeURIComponent(id)}${text === '' ? '' : `?${text}`}`;
  };
  return (
    <>
      <JobHeader page={page} job={job} />
      <Warned job={id} />
      <nav class="tabs" aria-label="Parts of the job">
        {tabs.filter(({ id: tab }) => tab !== 'mode' || isShared(job)).map((entry) => (
          <a key={entry.id} href={href(entry.id)} aria-current={tab === entry.id ? 'page' : undefined}>
            {entry.label}
            {counts[entry.id] ? <span class="count">{counts[entry.id]}</span> : null}
          </a>
        ))}
      </nav>
      {tab === '' && (
        <>
          <Later part={parts}>{({ JobCharts }) => <JobCharts page={page} nameOf={nameOf} />}</Later>
          <Card title={ranks.some(({ role }) => role !== 'worker') ? 'Workers and servers' : 'Workers'}>
            <WorkerTable job={job} />
          </Card>
        </>
      )}
      {tab === 'mode' && <Later part={parts}>{({ JobMode }) => <JobMode key={id} page={page} job={job} />}</Later>}
      {tab === 'traffic' && (
        <Later part={parts}>{({ JobTrafficView }) => <JobTrafficView key={id} job={job} />}</Later>
      )}
      {tab === 'logs' && <LogView job={id} ended={job.ended_at !== null} nameOf={nameOf} />}
      {tab === 'events' && (
        <Card title="Events">
          <EventsPart page={page} />
        </Card>
      )}
      {tab === 'checkpoints' && (
        <Card title="Checkpoints">
          <Checkpoints page={page} job={job} />
        </Card>
      )}
      {tab === 'spec' && (
        <Card title="Spec" tools={<CopyButton text={JSON.stringify(job.spec, null, 2)} name="the spec" />}>
          <pre class="code scroll" tabIndex={0} role="region" aria-label="Job spec">
            {JSON.stringify(job.spec, null, 2)}
          </pre>
        </Card>
      )}
    </>
  );
}

/** What the head warned of when the job was submitted here, until somebody has read it. */
function Warned({ job }: { job: string }) {
  const warnings = warned.value?.job === job ? warned.value.warnings : [];
  if (warnings.length === 0) return null;
  const dismiss = () => {
    warned.value = null;
  };
  return (
    <Card
      title="The head warns"
      tools={
        <button type="button" onClick={dismiss}>
          Dismiss
        </button>
      }
    >
      <Warnings of={warnings} />
    </Card>
  );
}

/** One process by itself waits for nobody and keeps no model but its own: there is nothing to say of its mode. */
function isShared({ spec, workers }: Job): boolean {
  return (workers ?? []).length > 1 || Number(getAt(spec, '/resources/workers')) > 1;
}

function EventsPart({ page }: { page: JobPage }) {
  const events = page.events.data.value;
  const error = page.events.error.value;
  if (error) return <ErrorPanel error={error} retry={() => page.fresh()} />;
  if (events === null) return <Skeleton />;
  if (events.length === 0) return <Empty title="Nothing has happened yet" />;
  return <EventTable events={[...events].reverse()} />;
}
