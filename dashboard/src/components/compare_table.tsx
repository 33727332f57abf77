import { Swatch } from '../charts/chart';
import { lineStyle } from '../charts/palette';
import { best, columns, nameColumn, nextOrder, ordered, type Column } from '../compare/columns';
import { orderText, type Order } from '../compare/query';
import type { Entry } from '../compare/tradeoff';
import { setQuery } from '../router';
import { now } from '../state/clock';
import { shownTheme } from '../state/theme';
import { StateBadge } from './icons';

interface Props {
  entries: readonly Entry[];
  order: Order | null;
  /** Takes a job out of the comparison. */
  onRemove: (id: string) => void;
}

/** One row for each job; a star at the best value of each column. */
export function CompareTable({ entries, order, onRemove }: Props) {
  const jobs = entries.map(({ job }) => job);
  const at = now.value;
  const stars = new Map(columns.map((column) => [column.id, best(column, jobs, at)]));
  const rows = ordered(jobs, order, at).map((job) => entries.find((entry) => entry.job === job)!);
  const served = entries
    .filter(({ job }) => job.workers?.some(({ role }) => role === 'server'))
    .map(({ label }) => label);
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="Compared jobs">
        <table class="rows compared">
          <thead>
            <tr>
              <Heading of={nameColumn} order={order} />
              {columns.map((column) => (
                <Heading key={column.id} of={column} order={order} />
              ))}
              <th>
                <span class="hidden">Leave out</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ job, label, style }) => (
              <tr key={job.id} data-row>
                <th scope="row">
                  <Swatch style={lineStyle(style, shownTheme.value)} />{' '}
                  <a href={`/jobs/${encodeURIComponent(job.id)}`} title={job.name || job.id}>
                    {label}
                  </a>
                </th>
                {columns.map((column) => (
                  <td key={column.id} class={isNumeric(column) ? 'num' : ''}>
                    {column.id === 'state' ? (
                      <StateBadge state={job.state} phase={job.state === 'RUNNING' ? job.phase : ''} />
                    ) : (
                      column.text(job, at)
                    )}
                    {stars.get(column.id)!.has(job.id) && <Star />}
                  </td>
                ))}
                <td>
                  <button
                    type="button"
                    class="button-small"
                    aria-label={`Leave out ${label}`}
                    onClick={() => onRemove(job.id)}
                  >
                    <span aria-hidden="true">×</span>
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="faint">
        ★ best of the column; of bytes and time, among jobs that have succeeded.
        {served.length > 0 && ` What servers send is not in the bytes of ${served.join(', ')}.`}
      </p>
    </>
  );
}

function Star() {
  return (
    <span class="star">
      <span aria-hidden="true">★</span>
      <span class="hidden">best</span>
    </span>
  );
}

function isNumeric({ id, better }: Column): boolean {
  return better !== undefined || id === 'workers';
}

function Heading({ of, order }: { of: Column; order: Order | null }) {
  const sorted = order?.column === of.id ? (order.descending ? 'descending' : 'ascending') : undefined;
  return (
    <th scope="col" class={isNumeric(of) ? 'num' : ''} aria-sort={sorted}>
      <button
        type="button"
        class="sort"
        title={`Sort by ${of.title.toLowerCase()}`}
        onClick={() => setQuery({ sort: orderText(nextOrder(of, order)) })}
      >
        {of.title}
        <span aria-hidden="true">{sorted === undefined ? '' : sorted === 'ascending' ? ' ▲' : ' ▼'}</span>
      </button>
    </th>
  );
}
