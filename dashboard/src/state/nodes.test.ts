import { effect } from '@preact/signals';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Node } from '../api/types';
import { rate } from '../format';
import { matching, Nodes, ratesBetween, withNodes } from './nodes';

const node = (name: string, change: Partial<Node> = {}): Node => ({
  id: `id-${name}`,
  name,
  host: '127.0.0.1',
  state: 'alive',
  resources: {},
  used: {},
  labels: {},
  ...change,
});
const names = (nodes: readonly Node[] | null) => nodes?.map(({ name }) => name);

describe('Nodes', () => {
  /** Pages of the head's answer. */
  let pages: Node[][];
  let fail: boolean;
  /** Called between the head's look at its nodes and the arrival of its answer. */
  let onTheWay: () => void;

  beforeEach(() => {
    vi.useFakeTimers();
    pages = [[node('n1')], [node('n2')]];
    fail = false;
    onTheWay = () => {};
    vi.stubGlobal('fetch', (input: string) => {
      const page = Number(new URL(input, 'http://head').searchParams.get('cursor') ?? 0);
      const answer = { nodes: pages[page], next: page + 1 < pages.length ? String(page + 1) : null };
      onTheWay();
      return Promise.resolve(fail ? new Response('{}', { status: 500 }) : new Response(JSON.stringify(answer)));
    });
  });
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  async function loaded(): Promise<Nodes> {
    const nodes = new Nodes();
    nodes.fresh();
    await vi.advanceTimersByTimeAsync(0);
    return nodes;
  }
  /** How often what is shown has changed, from now on. */
  function changes(nodes: Nodes): { count: number } {
    const seen = { count: -1 };
    effect(() => {
      void nodes.all.data.value;
      ++seen.count;
    });
    return seen;
  }

  it('knows the nodes of all pages', async () => {
    expect(names((await loaded()).all.data.value)).toEqual(['n1', 'n2']);
  });

  it('knows each once, though one was lost while they were read', async () => {
    pages = [[node('n1'), node('n2')], [node('n3'), node('n1', { state: 'lost' })]];
    expect(names((await loaded()).all.data.value)).toEqual(['n2', 'n3', 'n1']);
  });

  it('changes once a second, however many heartbeats come', async () => {
    pages = [Array.from({ length: 2000 }, (_, index) => node(`n${10_000 + index}`))];
    const nodes = await loaded();
    const seen = changes(nodes);
    for (let tenth = 1; tenth <= 100; ++tenth) {
      for (let index = tenth % 10; index < 2000; index += 10) {
        nodes.record('node', node(`n${10_000 + index}`, { cpu_load: tenth }));
      }
      await vi.advanceTimersByTimeAsync(100);
    }
    expect(seen.count).toBeGreaterThanOrEqual(9);
    expect(seen.count).toBeLessThanOrEqual(11);
    await vi.advanceTimersByTimeAsync(1000);
    const loads = new Set(nodes.all.data.value?.map(({ cpu_load }) => cpu_load));
    expect([...loads].sort(), 'the last one of each').toEqual([100, 91, 92, 93, 94, 95, 96, 97, 98, 99]);
  });

  it('shows at once what comes after a while, and what was asked of a node here', async () => {
    const nodes = await loaded();
    const states = () => nodes.all.data.value?.map(({ state }) => state);
    nodes.record('node', node('n1', { state: 'draining' }));
    nodes.record('node', node('n2', { state: 'draining' }));
    await vi.advanceTimersByTimeAsync(0);
    expect(states()).toEqual(['draining', 'draining']);
    nodes.record('node', node('n1'));
    await vi.advanceTimersByTimeAsync(0);
    expect(states()).toEqual(['draining', 'draining']);
    nodes.took(node('n2'));
    expect(states()).toEqual(['alive', 'alive']);
  });

  it('a record that comes while the nodes are read is newer than the answer', async () => {
    const nodes = await loaded();
    onTheWay = () => nodes.record('node', node('n2', { state: 'draining' }));
    nodes.fresh();
    await vi.advanceTimersByTimeAsync(2000);
    expect(nodes.all.data.value?.map(({ state }) => state)).toEqual(['alive', 'draining']);
  });

  it('what was told before a read that fails is not lost', async () => {
    const nodes = await loaded();
    nodes.record('node', node('n1'));
    await vi.advanceTimersByTimeAsync(0);
    nodes.record('node', node('n1', { state: 'lost' }));
    fail = true;
    nodes.fresh();
    await vi.advanceTimersByTimeAsync(0);
    expect(nodes.all.error.value).not.toBeNull();
    expect(names(nodes.all.data.value)).toEqual(['n2', 'n1']);
  });

  it('a node that is forgotten is gone, also from a list that was on its way', async () => {
    const nodes = await loaded();
    nodes.record('node_removed', { id: 'id-n1' });
    await vi.advanceTimersByTimeAsync(0);
    expect(names(nodes.all.data.value)).toEqual(['n2']);
    onTheWay = () => nodes.record('node_removed', { id: 'id-n2' });
    nodes.fresh();
    await vi.advanceTimersByTimeAsync(2000);
    expect(names(nodes.all.data.value)).toEqual(['n1']);
  });

  it('a node that is forgotten here is gone at once, unless the head refuses', async () => {
    pages = [[node('n1'), node('n2', { state: 'lost' })]];
    const nodes = await loaded();
    const asked: string[] = [];
    let status = 409;
    vi.stubGlobal('fetch', (path: string, { method }: RequestInit) => {
      asked.push(`${method} ${path}`);
      return Promise.resolve(status === 204 ? new Response(null, { status }) : new Response('{}', { status }));
    });
    await expect(nodes.forget(node('n2'))).rejects.toThrow();
    expect(names(nodes.all.data.value)).toEqual(['n1', 'n2']);
    status = 204;
    await nodes.forget(node('n2'));
    expect(names(nodes.all.data.value)).toEqual(['n1']);
    expect(asked).toEqual(['DELETE /api/v1/nodes/id-n2', 'DELETE /api/v1/nodes/id-n2']);
  });

  it('leaves alone what else there is to tell of a cluster', async () => {
    const nodes = await loaded();
    const seen = changes(nodes);
    nodes.record('event', { id: 'id-n1' });
    await vi.advanceTimersByTimeAsync(2000);
    expect(seen.count).toBe(0);
  });

  it('what a lost node last sent holds no more', async () => {
    const nodes = await loaded();
    const counters = (sent: number) => ({ network_sent_bytes: sent, network_received_bytes: 0 });
    nodes.took(node('n1', { ...counters(0), last_heartbeat_at: '2026-11-21T12:00:00Z' }));
    nodes.took(node('n1', { ...counters(800), last_heartbeat_at: '2026-11-21T12:00:01Z' }));
    expect(nodes.ratesOf(node('n1'))).toEqual({ sent: 800, received: 0 });
    expect(nodes.ratesOf(node('n1', { state: 'lost' }))).toBeUndefined();
  });
});

describe('the list of nodes', () => {
  const after = (nodes: readonly Node[], ...news: Node[]) =>
    withNodes(nodes, new Map(news.map((one) => [one.id, one])));

  it('has the living by name, then the lost', () => {
    const nodes = after([node('b')], node('c'), node('a'), node('A', { state: 'lost' }), node('B'));
    expect(names(nodes)).toEqual(['B', 'a', 'b', 'c', 'A']);
    expect(names(after(nodes, node('a', { state: 'lost' })))).toEqual(['B', 'b', 'c', 'A', 'a']);
    expect(names(after(nodes, node('A')))).toEqual(['A', 'B', 'a', 'b', 'c']);
  });

  it('has no more what is gone, and knows of nothing that was never there', () => {
    const gone = new Map([['id-a', null], ['id-z', null]]);
    expect(names(withNodes([node('a'), node('b')], gone))).toEqual(['b']);
    expect(names(withNodes([node('b')], gone))).toEqual(['b']);
  });

  it('is in the order of the head as long as every node stays where it is', () => {
    const nodes = [node('b'), node('a')];
    expect(names(after(nodes, node('a', { cpu_load: 1 }), node('b', { state: 'draining' })))).toEqual(['b', 'a']);
  });

  it('is searched by name and state, with the node that is named in full first', () => {
    const nodes = [node('an1'), node('n1'), node('n10', { state: 'draining' }), node('n2', { state: 'lost' })];
    const found = (state: string, q: string) => names(matching(nodes, { state, q }));
    expect(found('', '')).toEqual(['an1', 'n1', 'n10', 'n2']);
    expect(found('', 'N1')).toEqual(['an1', 'n1', 'n10']);
    expect(found('', 'n1')).toEqual(['n1', 'an1', 'n10']);
    expect(found('alive', 'n1')).toEqual(['n1', 'an1']);
    expect(found('lost', '')).toEqual(['n2']);
    expect(found('', 'ID-n10')).toEqual(['n10']);
    expect(found('', 'n9')).toEqual([]);
  });
});

describe('network rates', () => {
  it('come from two heartbeats, not over a restart of the counters', () => {
    const counters = { network_sent_bytes: 1000, network_received_bytes: 70 };
    const before = node('a', { last_heartbeat_at: '2026-11-21T12:00:00Z', ...counters });
    const after = { ...before, last_heartbeat_at: '2026-11-21T12:00:02Z', network_sent_bytes: 5000 };
    expect(ratesBetween(before, after)).toEqual({ sent: 2000, received: 0 });
    expect(ratesBetween(after, before)).toBeUndefined();
    expect(ratesBetween(before, { ...after, network_sent_bytes: 0 })).toBeUndefined();
  });

  it('are not zero where nobody measured', () => {
    const silent = node('a', { last_heartbeat_at: '2026-11-21T12:00:00Z' });
    const later = { ...silent, last_heartbeat_at: '2026-11-21T12:00:02Z' };
    const nulls = { ...later, network_sent_bytes: null, network_received_bytes: null } as unknown as Node;
    const measured = { ...silent, network_sent_bytes: 1, network_received_bytes: 1 };
    expect(ratesBetween(silent, later)).toEqual({ sent: NaN, received: NaN });
    expect(ratesBetween(measured, nulls)).toEqual({ sent: NaN, received: NaN });
    expect(rate(NaN)).toBe('–');
  });
});
