import type { Job, Role, Worker } from '../../src/api/types';

interface Curve {
  name: string;
  /** Null: of the whole job. */
  rank: number | null;
  /** How many steps lie between two points. */
  every: number;
  curve: (step: number) => number;
}

/** A step of 40 ms, of which the first worker waits for 20, the next for 10, ... */
const stepSeconds = 0.04;
const waits = (rank: number) => stepSeconds / 2 ** (rank + 1);

/** What ranks of a job report because of its mode, the same every time. */
export function modeCurves(job: Job): Curve[] {
  const { mode } = job.spec['training'] as { mode: string };
  const ranks = (role: Role) => (job.workers ?? []).filter((one) => one.role === role).map(({ rank }) => rank);
  if (mode === 'gossip') return [{ name: 'consensus_distance', rank: null, every: 50, curve: (step) => 3 / step }];
  if (mode !== 'local_sgd' && mode !== 'backup') return [];
  const times = ranks('worker').flatMap((rank): Curve[] => [
    { name: 'step_seconds', rank, every: 1, curve: () => stepSeconds },
    { name: 'compute_seconds', rank, every: 1, curve: () => stepSeconds - waits(rank) },
    { name: 'wait_seconds', rank, every: 1, curve: () => waits(rank) },
  ]);
  const local = ranks('worker').map((rank): Curve => ({ name: 'local_steps', rank, every: 8, curve: () => 8 }));
  const served = ranks('server').flatMap((rank): Curve[] => [
    { name: 'staleness', rank, every: 1, curve: () => 0.5 * rank },
    { name: 'staleness_max', rank, every: 1, curve: () => rank },
    { name: 'dropped_gradients', rank, every: 1, curve: (step) => step },
    { name: 'applied_gradients', rank, every: 1, curve: (step) => 3 * step },
    { name: 'wait_seconds', rank, every: 1, curve: () => 0.01 },
  ]);
  return mode === 'backup' ? [...times, ...served] : [...times, ...local];
}

/** A job like another one, in a mode; with servers, they are the last ranks. */
export function inMode(like: Job, id: string, training: { mode: string; params: object }, servers = 0): Job {
  const workers = (like.workers ?? []).map(
    (worker, rank, { length }): Worker =>
      rank < length - servers ? worker : { ...worker, role: 'server', loss: null, compression_ratio: null },
  );
  return {
    ...like,
    id,
    name: id,
    spec: { ...like.spec, training: { ...(like.spec['training'] as object), ...training } },
    workers,
  };
}
