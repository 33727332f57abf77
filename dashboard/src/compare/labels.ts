import type { Job } from '../api/types';

/** What each job is called beside the others: its name, and the end of its id where several have that name. */
export function labelsOf(jobs: readonly Pick<Job, 'id' | 'name'>[]): string[] {
  const times = new Map<string, number>();
  for (const { name } of jobs) times.set(name, (times.get(name) ?? 0) + 1);
  return jobs.map(({ id, name }) => {
    if (name === '') return id;
    return times.get(name) === 1 ? name : `${name} (${id.slice(-6)})`;
  });
}
