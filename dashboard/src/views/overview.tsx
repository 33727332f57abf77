import type { ApiError } from '../api/client';
import { jobStates, type ActorList, type Event, type Node } from '../api/types';
import { StateBadge } from '../components/icons';
import { EventTable } from '../components/events';
import { JobTable } from '../components/job_table';
import { Ago, Card, Empty, ErrorPanel, Meter, Skeleton, Stat } from '../components/ui';
import { bytes, count, number, rate } from '../format';
import { Cluster, cpuSlots, loadText, memoryText, sum } from '../state/cluster';
import { useFollower, useTitle } from '../state/hooks';
import type { NodeRates } from '../state/nodes';

export function OverviewView() {
  useTitle('Overview');
  const cluster = useFollower(() => new Cluster(), 'overview');
  const nodes = cluster.nodes.all.data.value;
  const jobs = cluster.jobs.data.value;
  const events = cluster.events.data.value;
  const failure = (error: ApiError | null) => error && <ErrorPanel error={error} retry={() => cluster.fresh()} />;
  const nodesFailure = failure(cluster.nodes.all.error.value);
  const jobsFailure = failure(cluster.jobs.error.value);
  const eventsFailure = failure(cluster.events.error.value);
  return (
    <>
      <h1>Cluster</h1>
      <Figures cluster={cluster} />
      <Card title="Jobs by state" tools={<a href="/jobs">All jobs</a>}>
        {jobsFailure}
        <div class="states">
          {jobStates.map((state) => (
            <a key={state} class="state-tile" href={`/jobs?state=${state}`}>
              <span class="state-count">{count(jobs?.counts[state])}</span>
              <StateBadge state={state} />
            </a>
          ))}
        </div>
      </Card>
      <Card title="Nodes" tools={<a href="/nodes">All nodes</a>}>
        {nodesFailure}
        {nodes === null ? (
          !nodesFailure && <Skeleton />
        ) : nodes.length === 0 ? (
          <Empty title="No node has joined" command="weir node --head 127.0.0.1:6380">
            Jobs wait until a node offers what they ask for.
          </Empty>
        ) : (
          <div class="nodes">
            {nodes.slice(0, 12).map((node) => (
              <NodeCard key={node.id} node={node} rates={cluster.nodes.ratesOf(node)} />
            ))}
          </div>
        )}
      </Card>
      <div class="columns">
        <Card title="Newest jobs" tools={<a href="/jobs">All jobs</a>}>
          {jobsFailure}
          {jobs === null ? !jobsFailure && <Skeleton /> : <JobTable jobs={jobs.jobs} short />}
        </Card>
        <Card title="What happened to nodes">
          {eventsFailure}
          {events === null ? !eventsFailure && <Skeleton /> : <EventList events={events} />}
        </Card>
      </div>
    </>
  );
}

function Figures({ cluster }: { cluster: Cluster }) {
  const nodes = cluster.nodes.all.data.value ?? [];
  const alive = nodes.filter(({ state }) => state !== 'lost');
  const { used, total } = cpuSlots(nodes);
  const workers = sum(alive, (node) => node.workers?.length);
  const lost = nodes.length - alive.length;
  const draining = nodes.filter(({ state }) => state === 'draining').length;
  const known = cluster.nodes.all.data.value !== null;
  const actorsError = cluster.actors.error.value;
  // Nodes of one host report the same load and memory.
  const hosts = [...new Map(alive.map((node) => [node.host, node])).values()];
  const load = sum(hosts, (node) => node.cpu_load);
  const memory = sum(hosts, (node) => node.memory_used_bytes);
  return (
    <div class="stats">
      <Stat
        name="Nodes"
        href="/nodes"
        value={known ? alive.length : '–'}
        note={
          <>
            {lost > 0 && <span class="bad">{lost} lost</span>}
            {lost > 0 && draining > 0 && ', '}
            {draining > 0 && `${draining} draining`}
            {known && lost + draining === 0 && 'all alive'}
          </>
        }
      />
      <Stat
        name="CPU slots used"
        href="/nodes"
        value={
          <>
            {number(used)} <small>of {number(total)}</small>
          </>
        }
        note={<Meter value={used} max={total} label="CPU slots used" />}
      />
      <Stat
        name="CPU load"
        href="/nodes"
        value={
          <>
            {load?.toFixed(1) ?? '–'} <small>cores</small>
          </>
        }
        note={`${count(workers)} workers`}
      />
      <Stat
        name="Memory"
        href="/nodes"
        value={bytes(memory)}
        note={<Meter value={memory} max={sum(hosts, (node) => node.memory_total_bytes)} label="Memory used" />}
      />
      <Stat
        name="Actors"
        href="/actors"
        value={actorsText(cluster.actors.data.value)}
        note={actorsError ? <span class="bad">{actorsError.message}</span> : 'head and workers'}
      />
    </div>
  );
}

function NodeCard({ node, rates }: { node: Node; rates: NodeRates | undefined }) {
  const cpu = node.resources['cpu'] ?? 0;
  return (
    <article class={`node node-${node.state}`}>
      <header>
        <a href={`/nodes?q=${encodeURIComponent(node.name)}`}>{node.name}</a>
        <span class="node-state">{node.state}</span>
      </header>
      <dl>
        <div>
          <dt>Slots</dt>
          <dd>
            {number(node.used['cpu'] ?? 0)} of {number(cpu)} cpu
            <Meter value={node.used['cpu'] ?? 0} max={cpu} label={`CPU slots used on ${node.name}`} />
          </dd>
        </div>
        <div>
          <dt>Load</dt>
          <dd>{loadText(node)}</dd>
        </div>
        <div>
          <dt>Memory</dt>
          <dd>
            {memoryText(node)}
            <Meter
              value={node.state === 'lost' ? null : node.memory_used_bytes}
              max={node.memory_total_bytes}
              label={`Memory of ${node.name}`}
            />
          </dd>
        </div>
        <div>
          <dt>Network</dt>
          <dd>
            ↑ {rate(rates?.sent)} ↓ {rate(rates?.received)}
          </dd>
        </div>
        <div>
          <dt>Heartbeat</dt>
          <dd>
            <Ago at={node.last_heartbeat_at} />
          </dd>
        </div>
      </dl>
    </article>
  );
}

function EventList({ events }: { events: Event[] }) {
  return events.length === 0 ? <Empty title="Nothing yet" /> : <EventTable events={events.slice(0, 12)} />;
}

function actorsText(page: ActorList | null): string {
  return page === null ? '–' : count(page.actors.length) + (page.next === null ? '' : '+');
}
