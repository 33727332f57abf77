import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LiveStream, type Follower, type Source } from './live';

type Handler = (event: { data: string; lastEventId: string }) => void;

/** An EventSource in the test's hand. */
class Wire implements Source {
  readyState = 0;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  private readonly handlers = new Map<string, Handler>();

  constructor(readonly url: string) {}

  addEventListener(kind: string, handler: Handler): void {
    this.handlers.set(kind, handler);
  }
  close(): void {
    this.readyState = 2;
  }
  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }
  send(kind: string, id: number, data: unknown): void {
    this.handlers.get(kind)?.({ data: JSON.stringify(data), lastEventId: String(id) });
  }
  /** The connection breaks: the browser tries again by itself, or gives up after a refusal. */
  fail(gaveUp: boolean): void {
    this.readyState = gaveUp ? 2 : 0;
    this.onerror?.();
  }
}

class Page implements Follower {
  records: [string, unknown][] = [];
  freshened = 0;
  constructor(readonly topics: string[]) {}
  record(kind: string, data: unknown): void {
    this.records.push([kind, data]);
  }
  fresh(): void {
    ++this.freshened;
  }
}

describe('LiveStream', () => {
  let wires: Wire[];
  let stream: LiveStream;
  let probe: ReturnType<typeof vi.fn<() => Promise<void>>>;
  const settle = () => vi.advanceTimersByTimeAsync(0);
  const wire = () => wires.at(-1)!;

  beforeEach(() => {
    vi.useFakeTimers();
    wires = [];
    probe = vi.fn(() => Promise.resolve());
    stream = new LiveStream({
      open: (url) => {
        wires.push(new Wire(url));
        return wire();
      },
      probe,
      now: () => Date.now(),
    });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('carries all topics over one connection and tells pages to read once it is open', async () => {
    const cluster = new Page(['cluster', 'jobs']);
    const job = new Page(['job:7']);
    stream.follow(cluster);
    stream.follow(job);
    await settle();
    expect(wires).toHaveLength(1);
    expect(wire().url).toBe('/api/v1/stream?topics=cluster,job%3A7,jobs');
    expect(cluster.freshened).toBe(0);
    wire().open();
    expect([cluster.freshened, job.freshened]).toEqual([1, 1]);
    expect(stream.status.value.state).toBe('live');
    wire().send('job', 5, { id: '7' });
    expect(job.records).toEqual([['job', { id: '7' }]]);
  });

  it('goes on from the last record when topics change, and only the new page reads', async () => {
    const cluster = new Page(['cluster']);
    const leave = stream.follow(cluster);
    await settle();
    wire().open();
    wire().send('node', 41, {});
    const job = new Page(['job:7']);
    stream.follow(job);
    await settle();
    expect(wires[0]!.readyState).toBe(2);
    expect(wire().url).toBe('/api/v1/stream?topics=cluster,job%3A7,jobs&last_event_id=41');
    wire().open();
    expect([cluster.freshened, job.freshened]).toEqual([1, 1]);
    leave();
    await settle();
    expect(wire().url).toBe('/api/v1/stream?topics=job%3A7,jobs&last_event_id=41');
    wire().open();
    expect(job.freshened).toBe(1);
  });

  it('leaving one page for another is one new connection', async () => {
    const leave = stream.follow(new Page(['job:1']));
    await settle();
    leave();
    stream.follow(new Page(['job:2']));
    await settle();
    expect(wires.map(({ url }) => url)).toEqual([
      '/api/v1/stream?topics=job%3A1,jobs',
      '/api/v1/stream?topics=job%3A2,jobs',
    ]);
  });

  it('a second page on the same topic reads for itself without a new connection', async () => {
    stream.follow(new Page(['jobs']));
    await settle();
    wire().open();
    const second = new Page(['jobs']);
    stream.follow(second);
    await settle();
    expect(wires).toHaveLength(1);
    expect(second.freshened).toBe(1);
  });

  it('reads nothing again when the browser resumes, everything after a reset', async () => {
    const page = new Page(['jobs']);
    stream.follow(page);
    await settle();
    wire().open();
    wire().send('job', 3, {});
    wire().fail(false);
    expect(stream.status.value.state).toBe('lost');
    wire().open();
    expect(stream.status.value.state).toBe('live');
    expect(page.freshened).toBe(1);
    wire().send('reset', 900, { sequence: 900 });
    expect(page.freshened).toBe(2);
    wire().fail(true);
    await vi.advanceTimersByTimeAsync(1000);
    expect(wire().url).toContain('last_event_id=900');
  });

  it('reads again when the connection broke before any record gave it a place', async () => {
    const page = new Page(['jobs']);
    stream.follow(page);
    await settle();
    wire().open();
    wire().fail(false);
    wire().open();
    expect(page.freshened).toBe(2);
  });

  it('tries again by itself after a refusal, ever more rarely, and asks why', async () => {
    stream.follow(new Page(['jobs']));
    await settle();
    for (let round = 1; round <= 8; ++round) {
      wire().fail(true);
      await vi.advanceTimersByTimeAsync(10_000);
      expect(wires).toHaveLength(round + 1);
      expect(probe).toHaveBeenCalledTimes(round);
    }
    wire().open();
    expect(stream.status.value.state).toBe('live');
  });

  it('a page is told to read even if the stream cannot be had', async () => {
    const page = new Page(['jobs']);
    stream.follow(page);
    await settle();
    wire().fail(true);
    expect(page.freshened).toBe(1);
    wire().fail(true);
    expect(page.freshened).toBe(1);
  });

  it('leaves out a record that is cut off and stops with the last page', async () => {
    const page = new Page(['jobs']);
    const leave = stream.follow(page);
    await settle();
    wire().open();
    const handlers = (wire() as unknown as { handlers: Map<string, Handler> }).handlers;
    handlers.get('job')!({ data: '{"id":', lastEventId: '4' });
    expect(page.records).toEqual([]);
    leave();
    await settle();
    expect(wire().readyState).toBe(2);
    expect(stream.status.value.state).toBe('idle');
  });
});
