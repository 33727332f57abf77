import type { ValidateResult, Warning } from '../api/types';
import { bytes, ratio } from '../format';
import { byRole, rankNames, type RankName, type RankRole } from '../ranks';
import { Card, Stat } from './ui';

/** What the head would do with the spec: where it runs, what a round costs, every default filled in. */
export function ValidateView({ result }: { result: ValidateResult }) {
  const { sent_per_worker: sent, dense_per_worker: dense } = result.round_bytes;
  const { workers } = result.placement;
  const nameOf = rankNames(workers);
  const byNode = new Map<string, RankRole[]>();
  for (const one of workers) byNode.set(one.node, [...(byNode.get(one.node) ?? []), one]);
  return (
    <Card title="The spec is valid">
      <div class="stats" role="status">
        <Stat
          name="Bytes a worker sends per round"
          value={bytes(sent)}
          note={sent === null ? 'not known before' : 'after the warm-up'}
        />
        <Stat name="Dense ring" value={bytes(dense)} note={sent && dense ? `${ratio(dense / sent)} as much` : null} />
      </div>
      {result.placement.feasible ? (
        <ul class="placement">
          {[...byNode].map(([node, there]) => (
            <li key={node}>
              <b>{node}</b> {placed(there, nameOf)}
            </li>
          ))}
        </ul>
      ) : (
        <p class="fault">It would wait: {result.placement.reason}</p>
      )}
      <Warnings of={result.warnings} />
      <details>
        <summary>Normalized spec</summary>
        <pre class="code scroll" tabIndex={0} role="region" aria-label="Normalized spec">
          {JSON.stringify(result.spec, null, 2)}
        </pre>
      </details>
    </Card>
  );
}

/** What is valid and probably not meant. */
export function Warnings({ of }: { of: readonly Warning[] }) {
  return (
    <>
      {of.map(({ pointer, detail }) => (
        <p key={pointer} class="caution" role="note">
          <b>{pointer}</b>: {detail}
        </p>
      ))}
    </>
  );
}

/** "rank 0, 1, server 0" */
function placed(there: readonly RankRole[], nameOf: RankName): string {
  const { worker: ranks = [], ...others } = Object.fromEntries(byRole(there));
  const workers = ranks.length > 0 ? [`rank ${ranks.join(', ')}`] : [];
  return [...workers, ...Object.values(others).flat().map(nameOf)].join(', ');
}
