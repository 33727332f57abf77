import type { Job, Summary } from '../../src/api/types';

/** How high the series of a job are beside another's: by its seed, of which 1 is the usual one. */
export function scaleOf(job: Job): number {
  return 1 - (Number((job.spec['training'] as { seed?: number }).seed ?? 1) - 1) / 10;
}

interface Asked {
  seed: number;
  compressor: string;
  params?: object;
  minutes: number;
}

/** A job like another one that has ended well, with its own spec, series and figures. */
export function ended(like: Job, id: string, { seed, compressor, params = {}, minutes }: Asked, summary: Summary): Job {
  const begin = Date.parse(like.created_at) - 3_600_000;
  return {
    ...like,
    id,
    name: id,
    state: 'SUCCEEDED',
    phase: '',
    created_at: new Date(begin).toISOString(),
    started_at: new Date(begin).toISOString(),
    ended_at: new Date(begin + minutes * 60_000).toISOString(),
    spec: {
      ...like.spec,
      name: id,
      training: { ...(like.spec['training'] as object), seed },
      compression: { name: compressor, params },
    },
    summary: { ...like.summary, ...summary },
  };
}
