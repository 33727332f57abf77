import { useEffect } from 'preact/hooks';
import type { MetricsAxis } from '../api/types';
import { Chart, type ChartLine } from '../charts/chart';
import { bytes, number, percent, ratio, seconds } from '../format';
import { escape } from '../keys';
import { route, setQuery } from '../router';
import type { JobPage } from '../state/job';
import type { Zoom } from '../state/metrics';
import { Choice, ErrorPanel } from './ui';

interface ChartSpec {
  id: string;
  title: string;
  metrics: { name: string; label: string }[];
  format: (value: number | null) => string;
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
    metrics: phases.map((name) => ({ name: `${name}_seconds`, label: name })),
  },
  {
    id: 'ratio',
    title: 'Compression ratio',
    format: ratio,
    metrics: [{ name: 'compression_ratio', label: 'dense / sent' }],
  },
];

const axes: readonly { value: MetricsAxis; label: string }[] = [
  { value: 'step', label: 'Step' },
  { value: 'wall', label: 'Time' },
  { value: 'bytes', label: 'Bytes' },
];

/** Lines by worker are for comparing a few: more than this cannot be told apart. */
const workersMax = 8;

export function JobCharts({ page }: { page: JobPage }) {
  const { metrics } = page;
  const { query } = route.value;
  const axis = axes.find(({ value }) => value === query.get('x'))?.value ?? 'step';
  const smoothing = Math.min(0.99, Math.max(0, Number(query.get('smooth') ?? 0) || 0));
  const byWorker = query.get('by') === 'worker';
  const zoomText = query.get('zoom') ?? '';
  useEffect(
    () => void metrics.setAxis(axis).then(() => metrics.setZoom(zoomOf(zoomText))),
    [metrics, axis, zoomText],
  );
  useEffect(() => void metrics.setWorkers(byWorker), [metrics, byWorker]);
  const setZoom = (zoom: Zoom | null) => setQuery({ zoom: zoom && `${exact(zoom.from)}~${exact(zoom.to)}` });
  useEffect(() => {
    escape.value = () => setZoom(null);
    return () => {
      escape.value = null;
    };
  }, []);
  const version = metrics.version.value;
  const error = metrics.history.error.value;
  const logs = query.get('log')?.split(',') ?? charts.filter(({ log }) => log).map(({ id }) => id);
  const setLog = (id: string, on: boolean) =>
    setQuery({ log: [...logs.filter((other) => other !== id), ...(on ? [id] : [])].join(',') || '-' });
  return (
    <section aria-label="Charts">
      <div class="toolbar">
        <span class="tool">
          <span>by</span>{' '}
          <Choice
            label="Horizontal axis"
            options={axes}
            value={axis}
            onChange={(value) => setQuery({ x: value === 'step' ? null : value, zoom: null })}
          />
        </span>
        <label class="tool">
          Smoothing
          <input
            type="range"
            min="0"
            max="0.98"
            step="0.02"
            value={smoothing}
            onInput={(event) =>
              setQuery({ smooth: event.currentTarget.value === '0' ? null : event.currentTarget.value })
            }
          />
          <output>{smoothing.toFixed(2)}</output>
        </label>
        <label class="tool">
          <input
            type="checkbox"
            checked={byWorker}
            onChange={(event) => setQuery({ by: event.currentTarget.checked ? 'worker' : null })}
          />{' '}
          each worker
        </label>
        <span class="tool-space" />
        {zoomText !== '' ? (
          <button type="button" onClick={() => setZoom(null)}>
            Show all <kbd>Esc</kbd>
          </button>
        ) : (
          <span class="faint">Drag over a chart to zoom</span>
        )}
        <a
          href={`/api/v1/jobs/${encodeURIComponent(page.id)}/metrics?format=csv&points=all`}
          download={`${page.id}.csv`}
        >
          CSV
        </a>
      </div>
      {error && <ErrorPanel error={error} retry={() => void metrics.load()} />}
      <div class="charts">
        {charts.map((chart) => (
          <Chart
            key={chart.id}
            title={chart.title}
            format={chart.format}
            lines={linesOf(chart, page, byWorker)}
            axis={metrics.axis.value}
            smoothing={chart.noisy ? smoothing : 0}
            log={logs.includes(chart.id)}
            zoom={metrics.zoom.value}
            version={version}
            onZoom={setZoom}
            onLog={(on) => setLog(chart.id, on)}
            empty={metrics.history.loading.value ? 'Loading' : 'No points yet'}
          />
        ))}
      </div>
    </section>
  );
}

/** The whole job's lines; or, where one metric is shown and it is known by rank, one line per rank. */
function linesOf(chart: ChartSpec, { metrics }: JobPage, byWorker: boolean): ChartLine[] {
  const first = chart.metrics[0]!;
  const ranks = byWorker && chart.id !== 'phases' ? metrics.workers(first.name).slice(0, workersMax) : [];
  if (ranks.length > 0) {
    return ranks.map((rank) => ({ label: `rank ${rank}`, series: metrics.line(first.name, rank) }));
  }
  return chart.metrics
    .map(({ name, label }) => ({ label, series: metrics.line(name, null) }))
    .filter(({ series }, index) => index === 0 || series.points.length > 0);
}

function zoomOf(text: string): Zoom | null {
  const [from, to] = text.split('~').map(Number);
  return from !== undefined && to !== undefined && to > from ? { from, to } : null;
}

/** Enough digits for a link, not seventeen. */
function exact(value: number): string {
  return String(Number(value.toPrecision(9)));
}
