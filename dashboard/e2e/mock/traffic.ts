import type { ExchangePlan, Job, Trace, TraceEvent, Traffic } from '../../src/api/types';

const counts = (bytes_sent: number, bytes_received: number) => ({ bytes_sent, bytes_received });

/** A ring: each worker sends to the next one, a kilobyte more in each step than the worker before it. */
export function trafficOf(job: Job): Traffic {
  const ranks = (job.workers ?? []).map(({ rank }) => rank);
  const world = ranks.length;
  const sentBy = (rank: number) => job.step * 1000 * (rank + 1);
  const next = (rank: number) => (rank + 1) % world;
  const before = (rank: number) => (rank + world - 1) % world;
  const all = ranks.reduce((sum, rank) => sum + sentBy(rank), 0);
  const tensors = (sent: number, received: number) => [
    { name: 'layer1.weight', ...counts(sent * 0.75, received * 0.75) },
    { name: 'a.name.without.any.place.to.break.it.'.repeat(3), ...counts(sent * 0.125, received * 0.125) },
  ];
  const rest = (sent: number, received: number) => counts(sent * 0.125, received * 0.125);
  const phases = (sent: number, received: number) => [
    { name: 'dense', ...counts(sent * 0.25, received * 0.25) },
    { name: 'pass 1', ...counts(sent * 0.75, received * 0.75) },
    { name: 'other', ...counts(0, 0) },
  ];
  return {
    job: job.id,
    ...counts(all, all),
    links: ranks.map((rank) => ({ from: rank, to: next(rank), ...counts(sentBy(rank), sentBy(rank)) })),
    links_dropped: 0,
    phases: world > 0 ? phases(all, all) : [],
    tensors: world > 0 ? tensors(all, all) : [],
    rest: rest(all, all),
    workers: ranks.map((worker) => {
      const [sent, received] = [sentBy(worker), sentBy(before(worker))];
      return {
        worker,
        step: job.step,
        ...counts(sent, received),
        phases: phases(sent, received),
        tensors: tensors(sent, received),
        rest: rest(sent, received),
      };
    }),
    plan: job.step < 10 ? null : planOf(job),
  };
}

/** Chosen by the workers after trials of ten steps; of the job that failed, fixed. */
function planOf(job: Job): ExchangePlan {
  const fixed = job.id === 'job-fail';
  const trial = !fixed && job.step < 40;
  const candidate = (routes: string, predicted: number, measured: number | null, followed: boolean) => ({
    routes,
    predicted_seconds: predicted,
    measured_seconds: measured,
    followed,
  });
  const coded = 'coded over butterfly, 9 buckets; float32 over tree, 1 bucket';
  const candidates = [
    candidate(coded, 0.04, 0.043, !trial),
    candidate('bfloat16 over ring, 9 buckets; float32 over tree, 1 bucket', 0.048, trial ? null : 0.08, trial),
    candidate('a_topology_without_any_place_to_break_it_'.repeat(4), 0.06, trial ? null : 0.055, false),
  ];
  const route = (form: string, topology: string, buckets: number, size: number) => ({
    form,
    topology,
    buckets,
    bytes: size,
  });
  const large = trial ? route('bfloat16', 'ring', 9, 1_720_000) : route('coded', 'butterfly', 9, 1_720_000);
  return {
    step: fixed ? 1 : trial ? 11 : 31,
    reason: fixed
      ? 'exchange.topology is "ring"'
      : trial
        ? 'on trial'
        : 'the fastest of 3 tried: 43 ms a step',
    on_trial: trial,
    routes: fixed ? [route('coded', 'ring', 10, 1_724_320)] : [large, route('float32', 'tree', 1, 2320)],
    latency_seconds: fixed ? null : 0.00005,
    bytes_per_second: fixed ? null : 117e6,
    candidates: fixed ? [] : candidates,
  };
}

const buckets = 3;

/** A step of 20 ms, the slowest one of 40: each bucket is encoded, waits, is sent and decoded, one after the other. */
export function traceOf(job: Job, query: URLSearchParams): Trace {
  const slow = query.get('step') === 'slowest' ? 2 : 1;
  const step = slow === 2 ? 17 : job.step;
  const asked = query.get('worker');
  const workers = (job.workers ?? []).filter(({ rank }) => asked === null || rank === Number(asked));
  const events = workers.flatMap(({ rank }) =>
    Array.from({ length: buckets }, (_, bucket): TraceEvent[] => {
      const at = (part: number) => 1000 * slow * (bucket * 6 + part);
      const pid = rank + 1;
      const wait = { name: `bucket ${bucket} waits`, cat: 'wait', id: `${pid}.${bucket}`, pid, tid: 3 } as const;
      const run = (cat: 'encode' | 'wire' | 'decode', from: number, length: number): TraceEvent => ({
        ph: 'X',
        name: `${cat} bucket ${bucket}, pass 1`,
        cat,
        pid,
        tid: { encode: 1, decode: 2, wire: 3 }[cat],
        ts: at(from),
        dur: 1000 * slow * length,
        args: { bucket, step, part: 'pass 1', ...(cat === 'wire' && counts(2000 + bucket, 1500)) },
      });
      return [
        run('encode', 0, 1),
        { ph: 'b', ts: at(1), args: { bucket, step }, ...wait },
        { ph: 'e', ts: at(2), ...wait },
        run('wire', 2, 3),
        run('decode', 5, 1),
      ];
    }).flat(),
  );
  return {
    displayTimeUnit: 'ms',
    otherData: {
      job: job.id,
      steps: workers.map(({ rank }) => ({ worker: rank, step, seconds: 0.02 * slow, dropped: 0 })),
    },
    traceEvents: events,
  };
}
