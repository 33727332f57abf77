import { useEffect, useMemo } from 'preact/hooks';
import { isTerminal, type Job } from '../api/types';
import { byteRows, ranksWithBuckets, readableTraffic, stepOf } from '../charts/traffic';
import { getAt } from '../forms/pointer';
import { bytes, count, seconds } from '../format';
import { rankNames } from '../ranks';
import { route, setQuery } from '../router';
import { now } from '../state/clock';
import { JobTraffic, trafficInterval, type TraceStep } from '../state/traffic';
import { Bars } from './bars';
import { ExchangePlan } from './exchange_plan';
import { StepTimeline } from './step_timeline';
import { TrafficMatrix } from './traffic_matrix';
import { Card, Choice, Empty, ErrorPanel, Skeleton } from './ui';

const steps: readonly { value: TraceStep; label: string }[] = [
  { value: 'sampled', label: 'A recent step' },
  { value: 'slowest', label: 'The slowest' },
];

const directions = ['Sent', 'Received'];

/** What a job's processes have sent each other. Read again every two seconds while the job runs. */
export function JobTrafficView({ job }: { job: Job }) {
  const traffic = useMemo(() => new JobTraffic(job.id), [job.id]);
  const { query } = route.value;
  const step = query.get('step') === 'slowest' ? 'slowest' : 'sampled';
  const worker = Math.max(0, Math.trunc(Number(query.get('worker') ?? 0)) || 0);
  const readable = readableTraffic(job);
  const beat = isTerminal(job.state) ? 0 : Math.floor(now.value / trafficInterval);
  const load = (anew: boolean) => {
    if (readable !== 'nothing') traffic.load(worker, readable === 'steps' ? step : null, anew);
  };
  useEffect(() => {
    // The end is read whoever looks.
    if (beat === 0 || !document.hidden) load(beat === 0);
  }, [traffic, worker, step, beat, readable]);
  const retry = () => load(true);
  if (readable === 'nothing') {
    return (
      <Card title="Traffic">
        <Empty title="There is nobody to exchange with">In mode local one worker trains by itself.</Empty>
      </Card>
    );
  }
  const totals = traffic.totals.data.value;
  const error = traffic.totals.error.value;
  if (totals === null) return error ? <ErrorPanel error={error} retry={retry} /> : <Skeleton rows={10} />;
  if (totals.workers.length === 0) {
    return (
      <Card title="Traffic">
        <NoTraffic job={job} />
      </Card>
    );
  }
  const nameOf = rankNames(job.workers ?? [], 'worker');
  const withBuckets = ranksWithBuckets(totals, job.workers ?? []);
  const rest = { name: 'the rest', ...totals.rest };
  return (
    <>
      {error && <ErrorPanel error={error} retry={retry} />}
      <Card
        title="Who talks to whom"
        tools={
          <span class="faint">
            {bytes(totals.bytes_sent)} sent by step {count(Math.min(...totals.workers.map((one) => one.step)))}
            {(job.restarts ?? 0) > 0 && ', since the last restart'}
          </span>
        }
      >
        {totals.links.length > 0 ? (
          <TrafficMatrix traffic={totals} nameOf={nameOf} />
        ) : (
          <Empty title="One worker has nobody to talk to" />
        )}
      </Card>
      {(totals.plan !== null || (withBuckets.length > 0 && awaitsPlan(job))) && (
        <ExchangePlan plan={totals.plan} />
      )}
      <div class="traffic-bars">
        <Card title="By phase">
          <Bars label="Bytes by phase" columns={['Phase', ...directions]} rows={byteRows(totals.phases)} />
        </Card>
        <Card title="By tensor">
          <Bars
            label="Bytes by tensor"
            columns={['Tensor', ...directions]}
            rows={byteRows([...totals.tensors, rest])}
          />
        </Card>
      </div>
      {withBuckets.length > 0 && (
        <Card
          title="One step, by bucket"
          tools={
            <span class="traffic-tools">
              <Choice
                label="Step"
                options={steps}
                value={step}
                onChange={(value) => setQuery({ step: value === 'sampled' ? null : value })}
              />
              <label class="tool">
                Worker{' '}
                <select value={worker} onChange={(event) => setQuery({ worker: event.currentTarget.value })}>
                  {withBuckets.map((rank) => (
                    <option key={rank} value={rank}>
                      {nameOf(rank).replace(/^worker /, '')}
                    </option>
                  ))}
                </select>
              </label>
              <a class="button" href={traffic.traceHref(step)} download={`${job.id}-trace.json`}>
                Export trace
              </a>
            </span>
          }
        >
          <StepPart traffic={traffic} worker={worker} chosen={step} name={nameOf(worker)} retry={retry} />
        </Card>
      )}
    </>
  );
}

/** Neighbours that mix their models have no plan. */
function awaitsPlan(job: Job): boolean {
  return !isTerminal(job.state) && getAt(job.spec, '/training/mode') !== 'gossip';
}

function NoTraffic({ job }: { job: Job }) {
  if (isTerminal(job.state)) return <Empty title="Nothing was exchanged" />;
  return <Empty title="Nothing has been exchanged yet">Workers report it every one or two seconds.</Empty>;
}

function StepPart({
  traffic,
  worker,
  chosen,
  name,
  retry,
}: {
  traffic: JobTraffic;
  worker: number;
  chosen: TraceStep;
  name: string;
  retry: () => void;
}) {
  const known = traffic.trace.data.value;
  const error = traffic.trace.error.value;
  const failure = error && <ErrorPanel error={error} retry={retry} />;
  if (known?.worker !== worker || known.step !== chosen) return failure ?? <Skeleton />;
  const step = stepOf(known.trace, worker);
  if (step === null) return failure ?? <Empty title={`No such step of ${name} yet`} />;
  return (
    <>
      {failure}
      <p class="faint">
        Step {count(step.step)} of {name}, {seconds(step.seconds)}. The exported trace has all workers and
        opens in Perfetto and chrome://tracing.
      </p>
      <StepTimeline step={step} />
    </>
  );
}
