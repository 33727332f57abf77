import { useEffect, useMemo } from 'preact/hooks';
import { jobStates } from '../api/types';
import { JobTable, type Picks } from '../components/job_table';
import { idsOf, picksMax, picksMin, textOf, toggled } from '../compare/picks';
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
  const ids = idsOf(query.get('pick'));
  const picks = { ids, toggle: (id: string) => setQuery({ pick: textOf(toggled(ids, id)) }) };
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
        <Compare picks={picks} />
      </div>
      <Card>
        {error && <ErrorPanel error={error} retry={() => list.fresh()} />}
        {page === null || (page.jobs.length === 0 && page.next !== null) ? (
          !error && <Skeleton rows={8} />
        ) : page.jobs.length === 0 && (q !== '' || state !== '' || cursor !== '') ? (
          <Empty title="No job matches">Try another state or search.</Empty>
        ) : (
          <JobTable jobs={page.jobs} picks={picks} />
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

/** To the comparison of the jobs that are ticked, on whatever page of the list. */
function Compare({ picks: { ids } }: { picks: Picks }) {
  const enough = ids.length >= picksMin && ids.length <= picksMax;
  return (
    <span class="tool compare">
      {ids.length > 0 && (
        <button type="button" onClick={() => setQuery({ pick: null })}>
          Untick all
        </button>
      )}
      {enough ? (
        <a class="button primary" href={`/compare?jobs=${encodeURIComponent(ids.join(','))}`}>
          Compare {ids.length} jobs
        </a>
      ) : (
        <button type="button" disabled title={`Tick ${picksMin} to ${picksMax} jobs`}>
          Compare{ids.length > 0 && ` ${ids.length}`}
        </button>
      )}
    </span>
  );
}
