import { differences } from '../compare/spec_differences';
import type { Entry } from '../compare/tradeoff';
import { Empty } from './ui';

/** What the jobs were asked for, where that is not the same. */
export function SpecDifferences({ entries }: { entries: readonly Entry[] }) {
  const rows = differences(entries.map(({ job }) => job.spec));
  if (rows.length === 0) return <Empty title="Their specs are the same, but for the name" />;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Differences of the specs">
      <table class="rows differences">
        <thead>
          <tr>
            <th scope="col">Key</th>
            {entries.map(({ job, label }) => (
              <th key={job.id} scope="col" title={job.id}>
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ pointer, values }) => (
            <tr key={pointer}>
              <th scope="row" class="mono">
                {pointer}
              </th>
              {values.map((value, column) => (
                <td key={entries[column]!.job.id} class="mono">
                  {value ?? <NotGiven />}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function NotGiven() {
  return (
    <>
      <span aria-hidden="true">–</span>
      <span class="hidden">not given</span>
    </>
  );
}
