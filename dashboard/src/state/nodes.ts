import { get, request } from '../api/client';
import { isNodeRecord, isRemoved, type Node, type NodeList, type NodeRecord } from '../api/types';
import type { Follower } from '../live/stream';
import { Pace } from './pace';
import { Resource } from './resource';

export interface NodeRates {
  sent: number;
  received: number;
}

export interface NodeFilter {
  state: string;
  q: string;
}

/**
 * All nodes: the living by name, then the lost, as the head lists them. Each sends a heartbeat a second; what they send
 * within a second is one change here, however many there are.
 */
export class Nodes implements Follower {
  readonly topics = ['cluster'];
  readonly all = new Resource<readonly Node[]>();
  /** By node id, from two heartbeats. No signal: it changes with the nodes only. */
  private readonly rates = new Map<string, NodeRates>();
  /** The newest record of each node that is not shown yet; null for one that is gone. */
  private readonly news = new Map<string, Node | null>();
  private readonly show = new Pace(async () => {
    await null; // records come several at a time: the first ones are shown together too
    this.apply();
  });

  fresh(): void {
    this.apply();
    void this.all.load(readNodes);
  }

  record(kind: string, data: unknown): void {
    if (!isNodeRecord(kind)) return;
    const node = data as NodeRecord;
    this.news.set(node.id, isRemoved(node) ? null : node);
    this.show.ask();
  }

  /** The head's answer to what was asked of a node here: shown at once. */
  took(node: Node): void {
    this.news.set(node.id, node);
    this.apply();
  }

  /** Has a node take no more work. */
  async drain(node: Node): Promise<void> {
    this.took(await request<Node>('POST', `${pathOf(node)}/drain`));
  }

  async undrain(node: Node): Promise<void> {
    this.took(await request<Node>('DELETE', `${pathOf(node)}/drain`));
  }

  /** Takes a lost node off the list, here and at the head. */
  async forget(node: Node): Promise<void> {
    await request('DELETE', pathOf(node));
    this.news.set(node.id, null);
    this.apply();
  }

  /** Network bytes per second of a node. What a lost one last sent holds no more. */
  ratesOf({ id, state }: Node): NodeRates | undefined {
    return state === 'lost' ? undefined : this.rates.get(id);
  }

  private apply(): void {
    if (this.news.size === 0) return;
    const news = new Map(this.news);
    this.news.clear();
    for (const before of this.all.data.value ?? []) {
      const after = news.get(before.id);
      const rates = after && ratesBetween(before, after);
      if (rates) this.rates.set(before.id, rates);
      if (after === null) this.rates.delete(before.id);
    }
    this.all.add((known) => withNodes(known, news));
  }
}

function pathOf({ id }: Node): string {
  return `/api/v1/nodes/${encodeURIComponent(id)}`;
}

/** All of them: they are counted, summed and searched, so one page of them would give wrong answers. */
async function readNodes(signal: AbortSignal): Promise<Node[]> {
  const nodes = new Map<string, Node>();
  let cursor: string | null = '';
  while (cursor !== null) {
    const page: NodeList = await get<NodeList>('/api/v1/nodes', { limit: 1000, cursor }, signal);
    for (const node of page.nodes) {
      nodes.delete(node.id); // lost since it was on an earlier page
      nodes.set(node.id, node);
    }
    cursor = page.next;
  }
  return [...nodes.values()];
}

/**
 * The nodes after records of some of them, by id; null for one that is gone. They are sorted anew only if one has come
 * or changed its place.
 */
export function withNodes(nodes: readonly Node[], news: ReadonlyMap<string, Node | null>): Node[] {
  const come = new Map(news);
  let moved = false;
  const all = nodes.flatMap((before) => {
    const after = news.get(before.id);
    if (after === undefined) return [before];
    come.delete(before.id);
    if (after === null) return [];
    moved ||= order(before, after) !== 0;
    return [after];
  });
  const others = [...come.values()].filter((node) => node !== null);
  if (others.length === 0 && !moved) return all;
  return [...all, ...others].sort(order);
}

function order(a: Node, b: Node): number {
  const later = Number(a.state === 'lost') - Number(b.state === 'lost');
  if (later !== 0 || a.name === b.name) return later;
  return a.name < b.name ? -1 : 1; // not as a language sorts, but as the head does
}

/** The nodes of a state, or of any, whose name contains a text. Links name a node in full: that one comes first. */
export function matching(nodes: readonly Node[], { state, q }: NodeFilter): Node[] {
  const text = q.toLowerCase();
  const found = nodes.filter(
    (node) =>
      (state === '' || node.state === state) &&
      (node.name.toLowerCase().includes(text) || node.id.toLowerCase() === text),
  );
  const meant = (node: Node) => node.name === q;
  return found.some(meant) ? [...found.filter(meant), ...found.filter((node) => !meant(node))] : found;
}

/** Bytes per second between two heartbeats, or undefined if the counters began anew or no time has passed. */
export function ratesBetween(before: Node, after: Node): NodeRates | undefined {
  const span = (Date.parse(after.last_heartbeat_at ?? '') - Date.parse(before.last_heartbeat_at ?? '')) / 1000;
  const sent = difference(before.network_sent_bytes, after.network_sent_bytes);
  const received = difference(before.network_received_bytes, after.network_received_bytes);
  if (!(span > 0) || sent < 0 || received < 0) return undefined;
  return { sent: sent / span, received: received / span };
}

/** NaN, which is written as a dash, where either was not measured. */
function difference(before: number | null | undefined, after: number | null | undefined): number {
  return (after ?? NaN) - (before ?? NaN);
}
