import { useEffect } from 'preact/hooks';
import type { Job } from '../api/types';
import { EventTable } from '../components/events';
import { Checkpoints } from '../components/checkpoints';
import { JobHeader } from '../components/job_header';
import { LogView } from '../components/log_view';
import { Card, CopyButton, Empty, ErrorPanel, Skeleton } from '../components/ui';
import { WorkerTable } from '../components/worker_table';
import { getAt } from '../forms/pointer';
import { rankNames, type RankName } from '../ranks';
import { route } from '../router';
import { eventsMax, JobPage } from '../state/job';
import { useFollower, useTitle } from '../state/hooks';
import { Resource } from '../state/resource';

/** The charts are the larger half of the dashboard: they are fetched when a job is first looked at. */
const charts = new Resource<typeof import('../components/job_charts')>();
const loadCharts = () => void charts.load(() => import('../components/job_charts'));

const mode = new Resource<typeof import('../components/job_mode')>();
const loadMode = () => void mode.load(() => import('../components/job_mode'));

const traffic = new Resource<typeof import('../components/job_traffic')>();
const loadTraffic = () => void traffic.load(() => import('../components/job_traffic'));

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
          <Charts page={page} nameOf={nameOf} />
          <Card title={ranks.some(({ role }) => role !== 'worker') ? 'Workers and servers' : 'Workers'}>
            <WorkerTable job={job} />
          </Card>
        </>
      )}
      {tab === 'mode' && <ModePart page={page} job={job} />}
      {tab === 'traffic' && <TrafficPart job={job} />}
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
        <Card title="Spec" tools={<CopyButton text={JSON.stringify(job.spec, null, 2)} />}>
          <pre class="code scroll" tabIndex={0} role="region" aria-label="Job spec">
            {JSON.stringify(job.spec, null, 2)}
          </pre>
        </Card>
      )}
    </>
  );
}

function Charts({ page, nameOf }: { page: JobPage; nameOf: RankName }) {
  const part = charts.data.value;
  const error = charts.error.value;
  useEffect(() => {
    if (charts.data.value === null) loadCharts();
  }, []);
  if (part !== null) return <part.JobCharts page={page} nameOf={nameOf} />;
  return error ? <ErrorPanel error={error} retry={loadCharts} /> : <Skeleton rows={10} />;
}

function ModePart({ page, job }: { page: JobPage; job: Job }) {
  const part = mode.data.value;
  const error = mode.error.value;
  useEffect(() => {
    if (mode.data.value === null) loadMode();
  }, []);
  if (part !== null) return <part.JobMode key={job.id} page={page} job={job} />;
  return error ? <ErrorPanel error={error} retry={loadMode} /> : <Skeleton rows={10} />;
}

function TrafficPart({ job }: { job: Job }) {
  const part = traffic.data.value;
  const error = traffic.error.value;
  useEffect(() => {
    if (traffic.data.value === null) loadTraffic();
  }, []);
  if (part !== null) return <part.JobTrafficView key={job.id} job={job} />;
  return error ? <ErrorPanel error={error} retry={loadTraffic} /> : <Skeleton rows={10} />;
}

/** One process by itself waits for nobody and keeps no model but its own: there is nothing to say of its mode. */
function isShared({ spec, workers }: Job): boolean {
  return (workers ?? []).length > 1 || Number(getAt(spec, '/resources/workers')) > 1;
}

/** Charts stand two in a row. */
function chartPoints(): number {
  return Math.min(2000, Math.max(300, Math.ceil(innerWidth / 2)));
}

function EventsPart({ page }: { page: JobPage }) {
  const events = page.events.data.value;
  const error = page.events.error.value;
  if (error) return <ErrorPanel error={error} retry={() => page.fresh()} />;
  if (events === null) return <Skeleton />;
  if (events.length === 0) return <Empty title="Nothing has happened yet" />;
  return <EventTable events={[...events].reverse()} />;
}
