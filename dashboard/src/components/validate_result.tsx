import type { ValidateResult } from '../api/types';
import { bytes, ratio } from '../format';
import { Card, Stat } from './ui';

/** What the head would do with the spec: where it runs, what a round costs, every default filled in. */
export function ValidateView({ result }: { result: ValidateResult }) {
  const { sent_per_worker: sent, dense_per_worker: dense } = result.round_bytes;
  const byNode = new Map<string, number[]>();
  for (const { rank, node } of result.placement.workers) byNode.set(node, [...(byNode.get(node) ?? []), rank]);
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
          {[...byNode].map(([node, ranks]) => (
            <li key={node}>
              <b>{node}</b> rank {ranks.join(', ')}
            </li>
          ))}
        </ul>
      ) : (
        <p class="fault">It would wait: {result.placement.reason}</p>
      )}
      {result.warnings.map(({ pointer, detail }) => (
        <p key={pointer} class="caution" role="note">
          <b>{pointer}</b>: {detail}
        </p>
      ))}
      <details>
        <summary>Normalized spec</summary>
        <pre class="code scroll" tabIndex={0} role="region" aria-label="Normalized spec">
          {JSON.stringify(result.spec, null, 2)}
        </pre>
      </details>
    </Card>
  );
}
