import { useSignal } from '@preact/signals';
import { ApiError } from '../api/client';
import type { Node } from '../api/types';
import { GpuTable } from '../components/gpu_table';
import { Pages } from '../components/pages';
import { Ago, Card, Choice, Confirm, Empty, ErrorPanel, Find, Meter, Skeleton } from '../components/ui';
import { number, rate } from '../format';
import { route, setFilter } from '../router';
import { loadText, memoryText } from '../state/cluster';
import { useFollower, useTitle } from '../state/hooks';
import { matching, Nodes, type NodeRates } from '../state/nodes';
import { sliceOf } from '../state/slice';

const filters = [
  { value: '', label: 'All' },
  { value: 'alive', label: 'Alive' },
  { value: 'draining', label: 'Draining' },
  { value: 'lost', label: 'Lost' },
];

/** What is done to a node only after a question, and what comes of it. */
const actions = {
  Drain: 'No new worker is placed there. Those that run go on to their end.',
  Forget: 'It is taken off the list. If it joins again, it is a new node, and takes work though it was drained.',
};
type Action = keyof typeof actions;

export function NodesView() {
  useTitle('Nodes');
  const list = useFollower(() => new Nodes(), 'nodes');
  const asking = useSignal<{ action: Action; node: Node } | null>(null);
  const failure = useSignal<ApiError | null>(null);
  const { query } = route.value;
  const state = query.get('state') ?? '';
  const q = (query.get('q') ?? '').trim();
  const all = list.all.data.value;
  const nodes = all && matching(all, { state, q });
  const shown = sliceOf(nodes ?? [], query.get('page'));
  const error = list.all.error.value;
  const asked = asking.value;
  const clear = () => {
    failure.value = null;
  };
  const run = async (action: () => Promise<void>) => {
    clear();
    try {
      await action();
    } catch (fault) {
      failure.value = fault instanceof ApiError ? fault : new ApiError(String(fault), 0, null);
    }
  };
  return (
    <>
      <div class="page-head">
        <h1>Nodes</h1>
        <Choice label="State" options={filters} value={state} onChange={(value) => setFilter({ state: value })} />
        <Find label="Find a node" />
      </div>
      <Card>
        {failure.value && <ErrorPanel error={failure.value} retry={clear} action="Dismiss" />}
        {error && <ErrorPanel error={error} retry={() => list.fresh()} />}
        {nodes === null ? (
          !error && <Skeleton rows={4} />
        ) : nodes.length === 0 ? (
          <NoNode filtered={q !== '' || state !== ''} />
        ) : (
          <div class="scroll" tabIndex={0} role="region" aria-label="Nodes">
            <table class="rows">
              <thead>
                <tr>
                  <th>Name</th>
                  <th>State</th>
                  <th>CPU slots</th>
                  <th>Load</th>
                  <th>Memory</th>
                  <th>Network</th>
                  <th>Workers</th>
                  <th>Labels</th>
                  <th>Heartbeat</th>
                  <th>Joined</th>
                  <th>
                    <span class="hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {shown.rows.map((node) => (
                  <NodeRow
                    key={node.id}
                    node={node}
                    rates={list.ratesOf(node)}
                    onAsk={(action) => {
                      clear();
                      asking.value = { action, node };
                    }}
                    onUndrain={() => void run(() => list.undrain(node))}
                  />
                ))}
              </tbody>
            </table>
          </div>
        )}
        <Pages of={shown} label="Pages of the list" parameter="page" />
      </Card>
      <GpuTable nodes={nodes ?? []} />
      {asked && (
        <Confirm
          title={`${asked.action} ${asked.node.name}?`}
          action={asked.action}
          onConfirm={() =>
            void run(() => (asked.action === 'Drain' ? list.drain(asked.node) : list.forget(asked.node)))
          }
          onClose={() => {
            asking.value = null;
          }}
        >
          <p>{actions[asked.action]}</p>
        </Confirm>
      )}
    </>
  );
}

function NoNode({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="No node matches">Try another state or name.</Empty>;
  return (
    <Empty title="No node" command="weir node --head 127.0.0.1:6380">
      Start one on any machine that reaches the head's control port. On another machine than the head's it needs{' '}
      <code>--secret-file</code> with a copy of the file <code>node_secret</code> of the head's data directory.
    </Empty>
  );
}

function NodeRow({
  node,
  rates,
  onAsk,
  onUndrain,
}: {
  node: Node;
  rates: NodeRates | undefined;
  onAsk: (action: Action) => void;
  onUndrain: () => void;
}) {
  const action = node.state === 'lost' ? 'Forget' : 'Drain';
  const cpu = node.resources['cpu'] ?? 0;
  const used = new Map(Object.entries(node.used)); // what a site calls its resources is its own matter
  const others = Object.entries(node.resources).filter(([name]) => name !== 'cpu' && name !== 'memory');
  return (
    <tr data-row>
      <td>
        <a href={`/nodes?q=${encodeURIComponent(node.name)}`}>{node.name}</a>
        <div class="faint">{node.host}</div>
      </td>
      <td>
        <span class={`node-state node-state-${node.state}`}>{node.state}</span>
        {typeof node['reason'] === 'string' && <div class="faint">{node['reason']}</div>}
      </td>
      <td>
        {number(node.used['cpu'] ?? 0)} of {number(cpu)}
        <Meter value={node.used['cpu'] ?? 0} max={cpu} label={`CPU slots used on ${node.name}`} />
        {others.map(([name, amount]) => (
          <div key={name} class="faint">
            {name} {number(used.get(name) ?? 0)} of {number(amount)}
          </div>
        ))}
      </td>
      <td>{loadText(node)}</td>
      <td>
        {memoryText(node)}
        <Meter
          value={node.state === 'lost' ? null : node.memory_used_bytes}
          max={node.memory_total_bytes}
          label={`Memory of ${node.name}`}
        />
      </td>
      <td>
        ↑ {rate(rates?.sent)}
        <div>↓ {rate(rates?.received)}</div>
      </td>
      <td>
        {(node.workers ?? []).map((worker) => (
          <div key={worker.worker_id}>
            <a href={`/jobs/${encodeURIComponent(worker.job)}`}>rank {worker.rank}</a>
            {worker.role !== 'worker' && ` ${worker.role.replace('_', ' ')}`}
            <span class="faint"> pid {worker.pid ?? '–'}</span>
          </div>
        ))}
      </td>
      <td>
        {Object.entries(node.labels).map(([name, value]) => (
          <span key={name} class="chip">
            {name}={value}
          </span>
        ))}
      </td>
      <td>
        <Ago at={node.last_heartbeat_at} />
      </td>
      <td>
        <Ago at={node.joined_at} />
      </td>
      <td>
        {node.state === 'draining' ? (
          <button type="button" onClick={onUndrain}>
            Undo drain
          </button>
        ) : (
          <button type="button" onClick={() => onAsk(action)}>
            {action}
          </button>
        )}
      </td>
    </tr>
  );
}
