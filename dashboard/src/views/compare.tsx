import { useEffect, useMemo } from 'preact/hooks';
import { metricKind } from '../charts/metric_kinds';
import { chartPoints } from '../charts/width';
import { useChartView } from '../components/chart_tools';
import { CompareCharts } from '../components/compare_charts';
import { CompareTable } from '../components/compare_table';
import { SpecDifferences } from '../components/spec_differences';
import { costs, TradeoffChart } from '../components/tradeoff_chart';
import { Card, Choice, Empty, ErrorPanel, Skeleton } from '../components/ui';
import { labelsOf } from '../compare/labels';
import { picksMax, picksMin, textOf, toggled } from '../compare/picks';
import { chosenOf, type Cost } from '../compare/query';
import { tradeoffOf, type Entry } from '../compare/tradeoff';
import { percent } from '../format';
import { route, setQuery } from '../router';
import { now } from '../state/clock';
import { Comparison, type ComparedJob } from '../state/comparison';
import { live } from '../state/session';

/** Several jobs beside each other. All of what is chosen here is in the URL. */
export function CompareView() {
  const { ids, left, metrics, cost, order } = chosenOf(route.value.query);
  const comparison = useMemo(() => new Comparison(chartPoints(), (follower) => live.follow(follower)), []);
  // What is shown of the jobs is told first: then their series are read once.
  const view = useChartView(
    comparison,
    'log',
    metrics.filter((name) => metricKind(name).log),
  );
  useEffect(() => void comparison.setNames(metrics), [comparison, metrics.join()]);
  useEffect(() => comparison.show(ids), [comparison, ids.join()]);
  useEffect(() => comparison.begin(), [comparison]);
  const jobs = comparison.jobs.value;
  const entries = entriesOf(jobs);
  const gone = jobs.filter((one) => one.gone.value);
  const chosen = [...ids, ...left];
  const list = `/jobs?pick=${encodeURIComponent(chosen.join(','))}`;
  return (
    <>
      <div class="page-head job-head">
        <div>
          <p class="crumb">
            <a href="/jobs">Jobs</a> / Compare
          </p>
          <h1>{ids.length < picksMin ? 'Compare jobs' : `Compare ${ids.length} jobs`}</h1>
        </div>
        <a class="button" href={list}>
          Choose other jobs
        </a>
      </div>
      {left.length > 0 && (
        <p class="reason reason-pending">More than {picksMax} jobs were chosen: these are the first.</p>
      )}
      {gone.map(({ id, job }) => (
        <p key={id} class="reason reason-pending">
          There is no job {job.data.value?.name || id} any more, if there ever was. <Remove id={id} ids={chosen} />
        </p>
      ))}
      <Failure of={jobs} />
      {ids.length - gone.length < picksMin && (
        <Card>
          <Empty title="Choose two jobs or more">
            Tick {picksMin} to {picksMax} of them in the <a href={list}>list of jobs</a>, then
            press Compare.
          </Empty>
        </Card>
      )}
      {entries.length === 0 && jobs.some(isAwaited) && (
        <Card>
          <Skeleton rows={6} />
        </Card>
      )}
      {entries.length > 0 && (
        <>
          <Card title="Figures">
            <CompareTable entries={entries} order={order} onRemove={(id) => remove(chosen, id)} />
          </Card>
          <CompareCharts comparison={comparison} entries={entries} metrics={metrics} view={view} />
          <TradeoffCard entries={entries} cost={cost} />
          <Card title="Differences of their specs">
            <SpecDifferences entries={entries} />
          </Card>
        </>
      )}
    </>
  );
}

const isAwaited = ({ present, error, gone }: ComparedJob) => present === null && error === null && !gone.value;

/** The jobs that are known. Each keeps the line style of its place among all that were chosen. */
function entriesOf(jobs: readonly ComparedJob[]): Entry[] {
  const known = jobs.flatMap(({ present }, style) => (present === null ? [] : [{ job: present, style }]));
  const labels = labelsOf(known.map(({ job }) => job));
  return known.map((one, index) => ({ ...one, label: labels[index]! }));
}

/** Of all that were chosen: the next one is compared in its place. */
function remove(ids: readonly string[], id: string): void {
  setQuery({ jobs: textOf(toggled(ids, id)) });
}

function Remove({ id, ids }: { id: string; ids: readonly string[] }) {
  return (
    <button type="button" class="button-small" onClick={() => remove(ids, id)}>
      Leave it out
    </button>
  );
}

/** Why some of the jobs, or their series, could not be read. The others are shown. */
function Failure({ of }: { of: readonly ComparedJob[] }) {
  const failed = of.filter(({ error }) => error !== null);
  const error = failed[0]?.error;
  return error ? <ErrorPanel error={error} retry={() => failed.forEach((one) => one.retry())} /> : null;
}

const choices: readonly { value: Cost; label: string }[] = [
  { value: 'bytes', label: 'Bytes' },
  { value: 'seconds', label: 'Time' },
];

function TradeoffCard({ entries, cost }: { entries: readonly Entry[]; cost: Cost }) {
  const of = tradeoffOf(entries, cost, now.value);
  const { axis, format } = costs[cost];
  const running = of.spots.some(({ ended }) => !ended);
  const tools = (
    <Choice
      label="What accuracy is drawn against"
      options={choices}
      value={cost}
      onChange={(value) => setQuery({ cost: value === 'bytes' ? null : value })}
    />
  );
  return (
    <Card title={`Accuracy against ${axis}`} tools={tools}>
      {of.spots.length === 0 ? (
        <Empty title="No job has a place here yet">It needs an accuracy, and {axis}.</Empty>
      ) : (
        <TradeoffChart of={of} cost={cost} />
      )}
      {of.front.length > 0 && (
        <p>
          No other one is both better and cheaper than{' '}
          {of.front.map((spot) => `${spot.label} (${percent(spot.gain)}, ${format(spot.cost)})`).join(', ')}.
        </p>
      )}
      {running && <p class="faint">Circles that are empty are of jobs that go on: they are left out of the front.</p>}
      {of.left.length > 0 && (
        <p class="faint">Not drawn: {of.left.map(({ label, why }) => `${label} (${why})`).join(', ')}.</p>
      )}
    </Card>
  );
}
