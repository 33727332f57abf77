import { useEffect, useMemo } from 'preact/hooks';
import { jobStates } from '../api/types';
import { JobTable } from '../components/job_table';
import { Card, Choice, Empty, ErrorPanel, Skeleton } from '../components/ui';
import { route, setFilter, setQuery } from '../router';
import { useFollower, useTitle } from '../state/hooks';
import { JobPages } from '../state/job_pages';

const filters = [
  { value: '', label: 'All' },
  ...jobStates.map((state) => ({
    value: state as string,
    label: state.charAt(0) + state.slice(1).toLowerCase(),
  })),
];

export function JobsView() {
  useTitle('Jobs');
  const { query } = route.value;
  const state = query.get('state') ?? '';
  const q = query.get('q') ?? '';
  const cursor = query.get('cursor') ?? '';
  const filter = useMemo(() => ({ state, q, cursor }), [state, q, cursor]);
  const list = useFollower(() => new JobPages(), 'jobs');
  useEffect(() => list.show(filter), [list, filter]);
  const page = list.page.data.value;
  const error = list.page.error.value;
  const before =
    query
      .get('before')
      ?.split('~')
      .filter((part) => part !== '') ?? [];
  const go = (to: string, trail: string[]) => setQuery({ cursor: to, before: trail.join('~') });
  return (
    <>
      <div class="page-head">
        <h1>Jobs</h1>
        <Choice
          label="State"
          options={filters}
          value={state}
          onChange={(value) => setFilter({ state: value })}
        />
        {q !== '' && (
          <button type="button" class="chip" onClick={() => setFilter({ q: null })}>
            “{q}” <span aria-hidden="true">×</span>
            <span class="hidden">remove search</span>
          </button>
        )}
      </div>
      <Card>
        {error && <ErrorPanel error={error} retry={() => list.fresh()} />}
        {page === null || (page.jobs.length === 0 && page.next !== null) ? (
          !error && <Skeleton rows={8} />
        ) : page.jobs.length === 0 && (q !== '' || state !== '' || cursor !== '') ? (
          <Empty title="No job matches">Try another state or search.</Empty>
        ) : (
          <JobTable jobs={page.jobs} />
        )}
        {page !== null && (cursor !== '' || page.next !== null) && (
          <nav class="pages" aria-label="Pages of the list">
            <button
              type="button"
              disabled={cursor === ''}
              onClick={() => go(before.at(-1) === '-' ? '' : (before.at(-1) ?? ''), before.slice(0, -1))}
            >
              Newer
            </button>
            <button
              type="button"
              disabled={page.next === null}
              onClick={() => go(page.next ?? '', [...before, cursor === '' ? '-' : cursor])}
            >
              Older
            </button>
          </nav>
        )}
      </Card>
    </>
  );
}
