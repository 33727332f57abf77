import { scaleOf } from './compared';
import { modeCurves } from './modes';
import type {
  ActorList,
  Catalog,
  Checkpoint,
  Event,
  Gpu,
  Job,
  JobState,
  LogChunk,
  Metrics,
  MetricsAxis,
  Node,
  Spec,
  Worker,
} from '../../src/api/types';

const start = Date.now() - 95_000;
const at = (seconds: number) => new Date(start + seconds * 1000).toISOString();

/** A name as hostile as the API lets through. */
export const hostileName = '<img src=x onerror=alert(1)>"\'&lt;';

const spec: Spec = {
  name: 'lenet-dgc',
  model: { name: 'lenet', params: {} },
  dataset: { name: 'fashion-mnist', path: null, partition: 'iid' },
  training: { mode: 'sync', epochs: 2, batch_size: 64, optimizer: { name: 'sgd', lr: 0.05, momentum: 0.9 }, seed: 1 },
  compression: { name: 'dgc', params: { ratio: 0.001 } },
  resources: { workers: 4, per_worker: { cpu: 1 } },
};

function worker(rank: number): Worker {
  return {
    rank,
    role: 'worker',
    worker_id: `w-${rank}`,
    node: rank < 2 ? 'n1' : 'n2',
    pid: 4711 + rank,
    state: 'running',
    step: 312,
    loss: 0.41 + rank / 100,
    samples_per_second: 1480 + 20 * rank,
    bytes_sent: 1_240_000 + rank * 999,
    bytes_received: 1_250_000,
    bytes_dense: 115_500_000,
    compression_ratio: 93.1,
    step_seconds: 0.043,
    wait_seconds: 0.0021 * (rank + 1),
    exit_code: null,
    signal: null,
  };
}

const states: readonly JobState[] = ['SUCCEEDED', 'SUCCEEDED', 'FAILED', 'STOPPED', 'SUCCEEDED', 'SUCCEEDED'];

/** One that runs, one that waits, one that failed, and thousands that are history. Newest first. */
export function manyJobs(count = 10_000): Job[] {
  const running: Job = {
    id: 'job-run',
    name: 'lenet-dgc',
    state: 'RUNNING',
    phase: 'training',
    reason: null,
    spec,
    created_at: at(0),
    started_at: at(1.4),
    ended_at: null,
    step: 312,
    steps_total: 470,
    summary: {
      accuracy: 0.8612,
      loss: 0.412,
      samples_per_second: 6012,
      bytes_sent: 4_965_000,
      bytes_received: 5_000_000,
      bytes_dense: 462_000_000,
      compression_ratio: 93.05,
      bytes_sent_after_warmup: 1_100_000,
      bytes_dense_after_warmup: 412_000_000,
    },
    workers: [0, 1, 2, 3].map(worker),
  };
  const waiting: Job = {
    ...running,
    id: 'job-wait',
    name: hostileName,
    state: 'PENDING',
    phase: 'placing',
    step: 0,
    created_at: at(-4),
    started_at: null,
    steps_total: null,
    summary: {},
    workers: [],
    reason: 'n1 lacks 6 cpu, n2 lacks 7 cpu; it would fit with 8 workers instead of 16',
  };
  const failed: Job = {
    ...running,
    id: 'job-fail',
    name: 'lenet-topk',
    state: 'FAILED',
    phase: '',
    created_at: at(-900),
    started_at: at(-898),
    ended_at: at(-840),
    step: 97,
    reason: 'worker 2 on n2 was killed by signal 9 (SIGKILL)',
    workers: [0, 1, 2, 3].map((rank) => ({ ...worker(rank), state: 'exited', ...(rank === 2 && { signal: 9 }) })),
  };
  const old = Array.from(
    { length: count - 3 },
    (_, index): Job => ({
      ...running,
      id: `job-${String(count - index).padStart(5, '0')}`,
      name: `sweep-${count - index}`,
      state: states[index % states.length]!,
      phase: '',
      created_at: at(-1000 - index * 60),
      started_at: at(-999 - index * 60),
      ended_at: at(-950 - index * 60),
      step: 470,
      workers: [],
      reason: states[index % states.length] === 'FAILED' ? 'the head restarted' : null,
    }),
  );
  return [running, waiting, failed, ...old];
}

export function nodes(): Node[] {
  const node = (name: string, used: number): Node => ({
    id: `node-${name}`,
    name,
    host: '127.0.0.1',
    state: 'alive',
    resources: { cpu: 4, memory: 8.2e9 },
    used: { cpu: used },
    labels: { zone: 'a' },
    version: '0.1.0',
    pid: 900,
    lease_id: 3,
    joined_at: at(-1200),
    last_heartbeat_at: at(95),
    heartbeat_age_seconds: 0.2,
    cpu_load: used * 0.93,
    memory_used_bytes: 3.1e9,
    memory_total_bytes: 8.2e9,
    network_sent_bytes: 1e8,
    network_received_bytes: 1e8,
    workers: [0, 1].map((index) => ({
      worker_id: `w-${index}`,
      job: 'job-run',
      rank: index,
      role: 'worker',
      pid: 4711,
    })),
  });
  return [
    node('n1', 2),
    { ...node('n2', 2), gpus: gpus() },
    { ...node('n3', 0), state: 'lost', last_heartbeat_at: at(-300), workers: [] },
  ];
}

/** One GPU that two workers share, and one of which nothing is known. */
function gpus(): Gpu[] {
  const share = (rank: number) => ({
    worker_id: `w-${rank}`,
    job: 'job-run',
    rank,
    role: 'worker' as const,
    share: 0.5,
  });
  const gpu: Gpu = {
    index: 0,
    uuid: 'GPU-5f3c0001',
    name: 'NVIDIA H200',
    state: 'present',
    booked: 1,
    workers: [share(0), share(1)],
    memory_total_bytes: 150.8e9,
    memory_used_bytes: 60.2e9,
    utilization: 0.43,
    power_watts: 512.5,
    temperature_celsius: 61,
    ecc_errors: 0,
    xid: null,
  };
  return [
    gpu,
    {
      ...gpu,
      index: 1,
      uuid: 'GPU-5f3c0002',
      state: 'lost',
      booked: 0,
      workers: [],
      memory_used_bytes: null,
      utilization: null,
      power_watts: null,
      temperature_celsius: null,
      ecc_errors: null,
    },
  ];
}

function event(id: number, seconds: number, severity: Event['severity'], kind: string, message: string): Event {
  return { id, at: at(seconds), severity, kind, message, job: null, node: null, worker: null };
}

export function nodeEvents(): Event[] {
  return [
    { ...event(6, -40, 'info', 'node.joined', 'node n3 joined'), node: 'n3' },
    { ...event(7, 51, 'warning', 'node.lost', 'node n3 sent no heartbeat for 2 s'), node: 'n3' },
  ];
}

export function eventsOf(job: Job): Event[] {
  return [
    event(1, 0, 'info', 'job.submitted', 'lenet-dgc was submitted'),
    event(2, 0.4, 'info', 'job.placed', '4 workers on n1, n2'),
    event(3, 1.4, 'info', 'job.state', 'RUNNING: training'),
    event(4, 51, 'warning', 'node.lost', 'node n3 sent no heartbeat for 2 s'),
    event(5, 62, 'info', 'checkpoint.taken', 'step 250, 724 kB'),
  ].map((one) => ({ ...one, job: job.id }));
}

export function actorsOf(job: Job): ActorList['actors'] {
  return [
    {
      name: 'head/membership',
      type: 'membership',
      state: 'running',
      node: null,
      job: null,
      process: 'head',
      mailbox_depth: 0,
      messages_handled: 5120,
    },
    ...[0, 1, 2, 3].map((rank) => ({
      name: `w-${rank}/trainer`,
      type: 'trainer',
      state: 'running',
      node: 'n1',
      job: job.id,
      process: `w-${rank}`,
      mailbox_depth: null,
      messages_handled: null,
    })),
  ];
}

export function checkpointsOf(job: Job): Checkpoint[] {
  return job.step === 0
    ? []
    : [
        { step: 125, bytes: 741_376, created_at: at(31) },
        { step: 250, bytes: 741_376, created_at: at(62) },
      ];
}

/** A value of each series at a step, the same every time. */
const curves: Record<string, (step: number) => number> = {
  loss: (step) => 2.3 * Math.exp(-step / 90) + 0.38 + 0.09 * Math.sin(step * 12.9898) * Math.cos(step * 4.1),
  accuracy: (step) => 0.9 - 0.8 * Math.exp(-step / 60),
  samples_per_second: (step) => 6000 + 420 * Math.sin(step * 7.3) * Math.sin(step / 9),
  bytes_sent: (step) => (step < 100 ? 40_000 * step : 4_000_000 + 3090 * (step - 100)),
  bytes_dense: (step) => 1_480_000 * step,
  compression_ratio: (step) => (1_480_000 * step) / (step < 100 ? 40_000 * step : 4_000_000 + 3090 * (step - 100)),
  compute_seconds: (step) => 0.031 + 0.002 * Math.sin(step * 3.1),
  encode_seconds: (step) => 0.0042 + 0.0006 * Math.sin(step * 5.7),
  exchange_seconds: (step) => (step < 100 ? 0.019 - step * 0.00014 : 0.0048) + 0.0009 * Math.sin(step * 2.2),
  decode_seconds: (step) => 0.0016 + 0.0002 * Math.sin(step * 8.8),
  wait_seconds: (step) => 0.0031 + 0.0021 * Math.abs(Math.sin(step * 1.7)),
};

export function valueOf(name: string, step: number): number {
  return curves[name]!(step);
}

export function history(job: Job, query: URLSearchParams): Metrics {
  const x = (query.get('x') ?? 'step') as MetricsAxis;
  const scale = x === 'step' ? 1 : x === 'wall' ? 0.21 : 15_900;
  const from = Number(query.get('from') ?? 0);
  const to = Number(query.get('to') ?? Infinity);
  const steps = Array.from({ length: job.step }, (_, index) => index + 1).filter(
    (step) => step * scale >= from && step * scale <= to,
  );
  const names = query.get('name')?.split(',');
  const all = query.get('worker') === 'all';
  const usual = Object.entries(curves).flatMap(([name, curve]) =>
    [null, ...(all ? (job.workers ?? []).map((one) => one.rank) : [])].map((rank) => ({
      name,
      worker: rank,
      points: steps
        .filter((step) => name !== 'accuracy' || step % 50 === 0)
        .map((step) => {
          const value = curve(step) * (rank === null ? 1 : 1 + rank / 50) * scaleOf(job);
          const spread = name === 'loss' ? 0.05 : 0;
          return [step * scale, value - spread, value + spread, value];
        }),
    })),
  );
  const own = modeCurves(job)
    .filter(({ rank }) => all || rank === null)
    .map(({ name, rank, every, curve }) => ({
      name,
      worker: rank,
      points: steps
        .filter((step) => step % every === 0)
        .map((step) => [step * scale, curve(step), curve(step), curve(step)]),
    }));
  const replaced = new Set(own.map(({ name }) => name));
  const series = [...usual.filter(({ name }) => !replaced.has(name)), ...own];
  const points = query.get('points') === '1' ? -1 : 0; // else all that there are
  return {
    job: job.id,
    x,
    series: series
      .filter(({ name }) => names?.includes(name) ?? true)
      .map((one) => ({ ...one, points: one.points.slice(points) })),
  };
}

export function logText(job: Job, query: URLSearchParams): LogChunk {
  const rank = Number(query.get('worker') ?? 0);
  const long =
    'a line that is far longer than any screen is wide, since somebody printed a whole tensor: ' +
    '0.1234 '.repeat(40);
  const lines = Array.from({ length: job.step * 8 }, (_, index) =>
    index % 97 === 13
      ? long
      : `step ${index} loss ${curves['loss']!(index).toFixed(4)} rank ${rank} ${index}/${job.step}`,
  );
  const text = job.step === 0 ? '' : `${['<script>alert(1)</script>', ...lines].join('\n')}\n`;
  const asked = Number(query.get('offset') ?? 0);
  const offset = asked < 0 ? Math.max(0, text.length + asked) : Math.min(asked, text.length);
  const next = Math.min(text.length, offset + Number(query.get('limit') ?? 65_536));
  const workers = job.step === 0 ? [] : [0, 1, 2, 3].map((worker) => ({ worker, size: text.length }));
  return {
    job: job.id,
    worker: rank,
    offset,
    next_offset: next,
    size: text.length,
    complete: job.ended_at !== null,
    text: text.slice(offset, next),
    workers,
  };
}

const entry = (name: string, summary: string, properties: Record<string, unknown> = {}, more = {}) => ({
  name,
  summary,
  params: { type: 'object', properties, additionalProperties: false },
  ...more,
});
export const catalog: Catalog = {
  models: [
    entry('lenet', 'LeNet-5, 61,706 parameters'),
    entry('mlp', 'Fully connected', {
      hidden: { type: 'integer', minimum: 1, maximum: 8192, default: 128, description: 'Units of the hidden layer' },
    }),
  ],
  datasets: [entry('fashion-mnist', '70,000 images of clothes in ten classes')],
  compressors: [
    entry('none', 'Everything, as float32', {}, { default_memory: null, memories: [] }),
    entry(
      'topk',
      'The k largest entries',
      {
        ratio: {
          type: 'number',
          exclusiveMinimum: 0,
          maximum: 1,
          default: 0.01,
          description: 'Share of the entries that is sent',
        },
      },
      { default_memory: 'residual', memories: ['residual'], memory_misfits: {} },
    ),
    entry(
      'dgc',
      'Deep Gradient Compression',
      {
        ratio: {
          type: 'number',
          exclusiveMinimum: 0,
          maximum: 1,
          default: 0.001,
          description: 'Share of the entries that is sent after the warm-up',
        },
        warmup_epochs: { type: 'number', minimum: 0, maximum: 100, default: 1, description: 'Epochs until then' },
      },
      {
        default_memory: 'dgc',
        memories: ['dgc'],
        memory_misfits: { residual: 'it leaves what was sent in the velocity' },
        pushes_misfit: 'it keeps state of all payloads',
      },
    ),
  ],
  memories: [
    entry('residual', 'Adds what was not sent to the next gradient'),
    entry(
      'dgc',
      'Momentum correction and masking',
      { momentum: { type: 'number', minimum: 0, default: 0.9 } },
      { differences_misfit: 'it applies momentum to gradients', owns_momentum: true },
    ),
  ],
  modes: [
    entry('sync', 'All workers take each step together', {}, { exchanges: 'gradients' }),
    entry(
      'local_sgd',
      'Several steps by themselves, then the mean of the models',
      { period: { type: 'integer', minimum: 1, default: 8, description: 'Steps between two exchanges' } },
      { exchanges: 'differences' },
    ),
    entry('gossip', 'Models are mixed with those of neighbours', {}, { exchanges: 'models' }),
    entry(
      'backup',
      'Servers drop the gradients that come last',
      {
        servers: { type: 'integer', minimum: 1, default: 1, description: 'Processes that hold the model' },
        backup_workers: { type: 'integer', minimum: 0, default: 1, description: 'Gradients dropped in each step' },
      },
      { exchanges: 'pushes', roles: { server: { count: 'servers' } } },
    ),
  ],
  topologies: [
    entry('ring', 'Ring all-reduce and all-gather'),
    entry('auto', 'measures links and coding and chooses for each bucket'),
  ],
  optimizers: [
    entry('sgd', 'Stochastic gradient descent', {
      lr: { type: 'number', exclusiveMinimum: 0, maximum: 100, default: 0.05, description: 'Learning rate' },
      momentum: { type: 'number', minimum: 0, exclusiveMaximum: 1, default: 0.9 },
      nesterov: { type: 'boolean', default: false },
      weight_decay: { type: 'number', minimum: 0, default: 0 },
    }),
    entry(
      'adam',
      'Adaptive moments of the gradients',
      { lr: { type: 'number', exclusiveMinimum: 0, maximum: 100, default: 0.001, description: 'Learning rate' } },
      { yields_momentum: false },
    ),
  ],
  lr_schedules: [entry('constant', 'The same rate throughout')],
};
