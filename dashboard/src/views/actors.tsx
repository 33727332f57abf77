import { useEffect, useMemo } from 'preact/hooks';
import { get } from '../api/client';
import type { ActorList } from '../api/types';
import { Card, Empty, ErrorPanel, Find, Skeleton } from '../components/ui';
import { count } from '../format';
import { route, setQuery } from '../router';
import { useTitle } from '../state/hooks';
import { Resource } from '../state/resource';

const limit = 100;
/** Actors come and go with jobs, their counters move all the time: the page is read anew this often. */
const refreshMilliseconds = 2000;

export function ActorsView() {
  useTitle('Actors');
  const cursor = route.value.query.get('cursor') ?? '';
  const q = (route.value.query.get('q') ?? '').trim();
  const actors = useMemo(() => new Resource<ActorList>(), []);
  useEffect(() => {
    const load = () => void actors.load((signal) => get<ActorList>('/api/v1/actors', { limit, cursor, q }, signal));
    load();
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible' && !actors.loading.value) load();
    }, refreshMilliseconds);
    return () => {
      clearInterval(timer);
      actors.cancel();
    };
  }, [cursor, q]);
  const page = actors.data.value;
  const error = actors.error.value;
  return (
    <>
      <div class="page-head">
        <h1>Actors</h1>
        <Find label="Find an actor" />
      </div>
      <Card>
        {error && <ErrorPanel error={error} />}
        {page === null ? (
          !error && <Skeleton rows={6} />
        ) : page.actors.length === 0 ? (
          <Empty title={q === '' ? 'No actor' : 'No actor matches'} />
        ) : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Actors">
            <table class="rows">
              <thead>
                <tr>
                  <th>Name</th>
                  <th>Type</th>
                  <th>State</th>
                  <th>Process</th>
                  <th>Node</th>
                  <th>Job</th>
                  <th class="num">Mailbox</th>
                  <th class="num">Messages</th>
                </tr>
              </thead>
              <tbody>
                {page.actors.map((actor) => (
                  <tr key={actor.name} data-row>
                    <td class="mono">{actor.name}</td>
                    <td>{actor.type}</td>
                    <td>{actor.state}</td>
                    <td class="mono">{actor.process}</td>
                    <td>
                      {actor.node ? <a href={`/nodes?q=${encodeURIComponent(actor.node)}`}>{actor.node}</a> : 'head'}
                    </td>
                    <td>{actor.job ? <a href={`/jobs/${encodeURIComponent(actor.job)}`}>{actor.job}</a> : '–'}</td>
                    <td class="num">{count(actor.mailbox_depth)}</td>
                    <td class="num">{count(actor.messages_handled)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        {page !== null && (cursor !== '' || page.next !== null) && (
          <nav class="pages" aria-label="Pages of the list">
            <button type="button" disabled={cursor === ''} onClick={() => setQuery({ cursor: null })}>
              First
            </button>
            <button type="button" disabled={page.next === null} onClick={() => setQuery({ cursor: page.next })}>
              Next
            </button>
          </nav>
        )}
      </Card>
    </>
  );
}
