import { isTerminal } from '../api/types';
import { Chart } from '../charts/chart';
import { metricKind } from '../charts/metric_kinds';
import type { Points } from '../charts/series';
import { csvOf } from '../compare/csv';
import { toggled } from '../compare/picks';
import { metricsText, usualMetrics } from '../compare/query';
import type { Entry } from '../compare/tradeoff';
import { setQuery } from '../router';
import type { Comparison } from '../state/comparison';
import { ChartTools, type ChartView } from './chart_tools';

interface Props {
  comparison: Comparison;
  entries: readonly Entry[];
  metrics: readonly string[];
  view: ChartView;
}

const none: Points = { points: [] };

/** A chart for each metric, and in it a line for each job: its whole job's series. */
export function CompareCharts({ comparison, entries, metrics, view }: Props) {
  const version = comparison.version.value;
  const series = new Map(comparison.jobs.value.map((one) => [one.id, one.series.value]));
  const reading = entries.some(({ job }) => series.get(job.id)?.history.loading.value ?? true);
  const why = entries.every(({ job }) => isTerminal(job.state)) ? 'None of these jobs has it' : 'No points yet';
  const line = (id: string, name: string) => series.get(id)?.line(name, null) ?? none;
  const csv = () =>
    csvOf(
      metrics.flatMap((name) => entries.map(({ job: { id } }) => ({ job: id, name, points: line(id, name).points }))),
    );
  return (
    <section aria-label="Charts">
      <ChartTools view={view} csv={<Csv text={csv} />}>
        <MetricsMenu comparison={comparison} chosen={metrics} />
      </ChartTools>
      <div class="charts">
        {metrics.map((name) => {
          const { title, format, increments, noisy } = metricKind(name);
          return (
            <Chart
              key={name}
              title={title}
              format={format}
              {...(increments && { increments })}
              lines={entries.map(({ job, label, style }) => ({
                label,
                title: job.id,
                style,
                series: line(job.id, name),
              }))}
              axis={comparison.axis.value}
              smoothing={noisy ? view.smoothing : 0}
              log={view.isLog(name)}
              zoom={comparison.zoom.value}
              version={version}
              onZoom={view.setZoom}
              onLog={(on) => view.setLog(name, on)}
              empty={reading ? 'Loading' : why}
              note=""
            />
          );
        })}
      </div>
    </section>
  );
}

/** The points that the charts show, as a file: made only when it is asked for. */
function Csv({ text }: { text: () => string }) {
  const save = () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text()], { type: 'text/csv' }));
    link.download = 'compare.csv';
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <button type="button" title="The points that the charts show; a job's own page has all of them" onClick={save}>
      CSV
    </button>
  );
}

/** Which metrics are shown: any that one of the jobs has. */
function MetricsMenu({ comparison, chosen }: { comparison: Comparison; chosen: readonly string[] }) {
  const known = new Set(comparison.jobs.value.flatMap((one) => [...one.names.value]));
  const rest = [...new Set([...known, ...chosen])].filter((name) => !usualMetrics.includes(name)).sort();
  return (
    <details class="menu metrics-menu">
      <summary class="button">Metrics</summary>
      <ul>
        {[...usualMetrics, ...rest].map((name) => (
          <li key={name}>
            <label>
              <input
                type="checkbox"
                checked={chosen.includes(name)}
                disabled={chosen.length === 1 && chosen.includes(name)}
                onChange={() => setQuery({ m: metricsText(toggled(chosen, name)) })}
              />{' '}
              {metricKind(name).title}
            </label>
          </li>
        ))}
      </ul>
    </details>
  );
}
