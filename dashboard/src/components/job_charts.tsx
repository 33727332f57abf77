import { useEffect } from 'preact/hooks';
import { Chart, type ChartProps } from '../charts/chart';
import { timeIncrements } from '../charts/increments';
import { firstOf, linesMax } from '../charts/palette';
import { otherLabels } from '../charts/pushes';
import { bytes, number, percent, ratio, seconds } from '../format';
import type { RankName } from '../ranks';
import { route, setQuery } from '../router';
import type { JobPage } from '../state/job';
import { ChartTools, JobCsv, useChartView } from './chart_tools';
import { ErrorPanel } from './ui';

interface ChartSpec {
  id: string;
  title: string;
  metrics: { name: string; label: string }[];
  format: ChartProps['format'];
  increments?: readonly number[];
  /** Shown on a log axis unless the URL says otherwise. */
  log?: boolean;
  /** Noise is smoothed; a rare or a cumulative figure would only be falsified. */
  noisy?: boolean;
}

const phases = ['compute', 'encode', 'exchange', 'decode', 'wait'];
const charts: readonly ChartSpec[] = [
  {
    id: 'loss',
    title: 'Loss',
    noisy: true,
    format: number,
    metrics: [
      { name: 'loss', label: 'training' },
      { name: 'test_loss', label: 'test' },
    ],
  },
  { id: 'accuracy', title: 'Test accuracy', format: percent, metrics: [{ name: 'accuracy', label: 'accuracy' }] },
  {
    id: 'throughput',
    title: 'Throughput, samples/s',
    noisy: true,
    format: number,
    metrics: [{ name: 'samples_per_second', label: 'samples/s' }],
  },
  {
    id: 'traffic',
    title: 'Traffic, cumulative',
    format: bytes,
    log: true,
    metrics: [
      { name: 'bytes_sent', label: 'sent' },
      { name: 'bytes_dense', label: 'dense ring' },
    ],
  },
  {
    id: 'phases',
    title: 'Time per step, by phase',
    noisy: true,
    format: seconds,
    increments: timeIncrements,
    metrics: phases.map((name) => ({ name: `${name}_seconds`, label: name })),
  },
  {
    id: 'ratio',
    title: 'Compression ratio',
    format: ratio,
    metrics: [{ name: 'compression_ratio', label: 'dense / sent' }],
  },
];

const logCharts = charts.filter(({ log }) => log).map(({ id }) => id);

export function JobCharts({ page, nameOf }: { page: JobPage; nameOf: RankName }) {
  const { metrics } = page;
  const byWorker = route.value.query.get('by') === 'worker';
  const view = useChartView(metrics, 'log', logCharts);
  useEffect(() => void metrics.setWorkers(byWorker), [metrics, byWorker]);
  const version = metrics.version.value;
  const error = metrics.history.error.value;
  return (
    <section aria-label="Charts">
      <ChartTools view={view} csv={<JobCsv job={page.id} />}>
        <label class="tool">
          <input
            type="checkbox"
            checked={byWorker}
            onChange={(event) => setQuery({ by: event.currentTarget.checked ? 'worker' : null })}
          />{' '}
          each worker
        </label>
      </ChartTools>
      {error && <ErrorPanel error={error} retry={() => void metrics.load()} />}
      <div class="charts">
        {charts.map((chart) => (
          <Chart
            key={chart.id}
            title={chart.title}
            format={chart.format}
            {...(chart.increments && { increments: chart.increments })}
            {...linesOf(chart, page, byWorker, nameOf)}
            axis={metrics.axis.value}
            smoothing={chart.noisy ? view.smoothing : 0}
            log={view.isLog(chart.id)}
            zoom={metrics.zoom.value}
            version={version}
            onZoom={view.setZoom}
            onLog={(on) => view.setLog(chart.id, on)}
            empty={metrics.history.loading.value ? 'Loading' : 'No points yet'}
          />
        ))}
      </div>
    </section>
  );
}

/** The whole job's lines; or, where one metric is shown and it is known by rank, one line per rank. */
function linesOf(chart: ChartSpec, { metrics, job }: JobPage, byWorker: boolean, nameOf: RankName) {
  const others = otherLabels(job.data.value);
  const first = chart.metrics[0]!;
  const ranks = byWorker && chart.id !== 'phases' ? metrics.workers(first.name) : [];
  const byRank = ranks
    .slice(0, linesMax)
    .map((rank) => ({ label: nameOf(rank), series: metrics.line(first.name, rank) }));
  const ofJob = chart.metrics
    .map(({ name, label }) => ({ label, ...others[name], series: metrics.line(name, null) }))
    .filter(({ series }, index) => index === 0 || series.points.length > 0);
  return { lines: ranks.length > 0 ? byRank : ofJob, note: firstOf(linesMax, ranks.length) };
}
