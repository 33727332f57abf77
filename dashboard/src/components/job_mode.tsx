import { useEffect, useMemo } from 'preact/hooks';
import { get } from '../api/client';
import type { Catalog, CatalogEntry, Job } from '../api/types';
import { Chart } from '../charts/chart';
import { modeMetrics, mostIdle, shareOfTime, type TimeShares } from '../charts/mode';
import { logCharts, modeCharts, type ModeChart } from '../charts/mode_charts';
import { getAt } from '../forms/pointer';
import { inputText } from '../forms/schema';
import { count, percent } from '../format';
import { byRole, rankNames, type RankName } from '../ranks';
import type { JobPage } from '../state/job';
import type { Metrics } from '../state/metrics';
import { Resource } from '../state/resource';
import { Bars } from './bars';
import { ChartTools, JobCsv, useChartView } from './chart_tools';
import { Card, Empty, ErrorPanel } from './ui';

/** The same for all jobs, and read when a mode is first looked at. */
const catalog = new Resource<Catalog>();
const loadCatalog = () => void catalog.load((signal) => get<Catalog>('/api/v1/catalog', {}, signal));

/** What a job's training mode is about: how long its workers wait, and what the mode makes of that. */
export function JobMode({ page, job }: { page: JobPage; job: Job }) {
  const metrics = useMemo(() => page.series(modeMetrics), [page]);
  useEffect(() => page.follow(metrics), [page, metrics]);
  useEffect(() => {
    if (catalog.data.value === null) loadCatalog();
  }, []);
  const view = useChartView(metrics, 'modelog', logCharts);
  const version = metrics.version.value;
  const loading = metrics.history.loading.value;
  const error = metrics.history.error.value;
  const name = getAt(job.spec, '/training/mode');
  const mode = catalog.data.value?.modes.find((entry) => entry.name === name) ?? null;
  const ranks = byRole(job.workers ?? []);
  const nameOf = rankNames(job.workers ?? []);
  const workers = ranks.get('worker') ?? [];
  const servers = ranks.get('server') ?? [];
  const shown = modeCharts(mode, { line: (of, rank) => metrics.line(of, rank), workers, servers, nameOf });
  return (
    <>
      <About job={job} mode={mode} />
      <section aria-label="Charts">
        <ChartTools view={view} csv={<JobCsv job={job.id} />} />
        {error && <ErrorPanel error={error} retry={() => void metrics.load()} />}
        <div class="charts">
          {shown.map((chart) => (
            <Chart
              key={chart.id}
              title={chart.title}
              format={chart.format}
              lines={chart.drawn}
              axis={metrics.axis.value}
              smoothing={chart.noisy ? view.smoothing : 0}
              log={view.isLog(chart.id)}
              zoom={metrics.zoom.value}
              version={version}
              onZoom={view.setZoom}
              onLog={(on) => view.setLog(chart.id, on)}
              empty={loading ? 'Loading' : whyEmpty(job, chart)}
              note={chart.note}
            />
          ))}
        </div>
      </section>
      <Card title="Time of the shown steps, by worker">
        <Shares shares={sharesOf(metrics, workers)} nameOf={nameOf} />
      </Card>
    </>
  );
}

/** The mode and its parameters. */
function About({ job, mode }: { job: Job; mode: CatalogEntry | null }) {
  const error = catalog.error.value;
  const known = catalog.data.value !== null;
  const given = Object.entries(getAt(job.spec, '/training/params') ?? {});
  const params = given.filter(([, value]) => inputText(value) !== '');
  return (
    <Card title={inputText(getAt(job.spec, '/training/mode')) || 'sync'}>
      {error && <ErrorPanel error={error} retry={loadCatalog} />}
      <p>{mode?.summary ?? (known ? 'The mode of this job is not in the catalog.' : '…')}</p>
      {params.length > 0 && (
        <dl class="params">
          {params.map(([param, value]) => (
            <div key={param}>
              <dt>{param}</dt>
              <dd>{inputText(value)}</dd>
            </div>
          ))}
        </dl>
      )}
    </Card>
  );
}

function Shares({ shares: all, nameOf }: { shares: readonly TimeShares[]; nameOf: RankName }) {
  const { shares, left } = mostIdle(all);
  if (shares.length === 0) {
    return <Empty title="No step yet">Workers tell after each step how long they have computed and waited.</Empty>;
  }
  const rows = shares.map(({ rank, compute, wait }) => ({
    name: nameOf(rank),
    bars: [compute, wait],
    cells: [percent(compute), percent(wait)],
  }));
  return (
    <>
      <Bars label="Time by worker" columns={['Worker', 'Computes', 'Waits']} rows={rows} most={1} />
      {left > 0 && <p class="faint">{count(left)} more workers have waited less.</p>}
    </>
  );
}

function sharesOf(metrics: Metrics, workers: readonly number[]): TimeShares[] {
  const axis = metrics.axis.value;
  return workers.flatMap((rank) => {
    const steps = metrics.line('step_seconds', rank).points;
    const compute = shareOfTime(metrics.line('compute_seconds', rank).points, steps, axis);
    const wait = shareOfTime(metrics.line('wait_seconds', rank).points, steps, axis);
    return compute === null || wait === null ? [] : [{ rank, compute, wait }];
  });
}

function whyEmpty(job: Job, { none }: ModeChart): string {
  if (job.started_at === null) return 'The job has not begun';
  return job.ended_at === null ? none : 'The job has ended without a value of it';
}
