import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Page, Wire } from '../../tests/wire';
import { LiveStream, streamSilenceMillisecondsMax } from './stream';

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
      changed: () => {},
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
    expect(stream.status.state).toBe('live');
    wire().send('job', 5, { id: '7' });
    expect(job.records).toEqual([['job', { id: '7' }]]);
    wire().send('metrics', 6, { job: '8', points: [] });
    wire().send('node', 7, { id: 'n1' });
    expect(job.records, 'only of what it follows').toHaveLength(1);
    expect(cluster.records.map(([kind]) => kind)).toEqual(['job', 'node']);
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
    expect(wires, 'a topic is let go of a little later').toHaveLength(2);
    await vi.advanceTimersByTimeAsync(200);
    expect(wire().url).toBe('/api/v1/stream?topics=job%3A7,jobs&last_event_id=41');
    wire().open();
    expect(job.freshened).toBe(1);
  });

  it('a page that comes back at once finds its topic still carried', async () => {
    stream.follow(new Page(['jobs']));
    const leave = stream.follow(new Page(['job:7']));
    await settle();
    wire().open();
    leave();
    await vi.advanceTimersByTimeAsync(100);
    const again = new Page(['job:7']);
    stream.follow(again);
    await vi.advanceTimersByTimeAsync(1000);
    expect(wires).toHaveLength(1);
    expect(again.freshened).toBe(1);
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
    expect(stream.status.state).toBe('lost');
    wire().open();
    expect(stream.status.state).toBe('live');
    expect(page.freshened).toBe(1);
    wire().send('reset', 900, { sequence: 900 });
    expect(page.freshened).toBe(2);
    wire().fail(true);
    await vi.advanceTimersByTimeAsync(1000);
    expect(wire().url).toContain('last_event_id=900');
  });

  it('tells a page that is up to date that the stream goes on, and no other', async () => {
    const page = new Page(['jobs']);
    stream.follow(page);
    await settle();
    wire().open();
    expect(page.resumptions, 'it has just begun').toBe(0);
    wire().send('job', 3, {});
    wire().fail(false);
    wire().open();
    expect([page.freshened, page.resumptions]).toEqual([1, 1]);
    const other = new Page(['job:7']);
    stream.follow(other);
    await settle();
    wire().open();
    expect([page.freshened, page.resumptions], 'there was no stream while it was made anew').toEqual([1, 2]);
    expect([other.freshened, other.resumptions]).toEqual([1, 0]);
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

  it('goes on from the place that the stream began with, before any record', async () => {
    const page = new Page(['jobs']);
    stream.follow(page);
    await settle();
    wire().open();
    wire().send('beat', 5, {});
    wire().fail(false);
    wire().open();
    expect(page.freshened).toBe(1);
    wire().fail(true);
    await vi.advanceTimersByTimeAsync(1000);
    expect(wire().url).toContain('last_event_id=5');
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
    expect(stream.status.state).toBe('live');
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

  it('a page that comes while the connection is lost reads once it is back', async () => {
    const first = new Page(['cluster', 'jobs']);
    const leave = stream.follow(first);
    await settle();
    wire().open();
    wire().send('job', 3, {});
    wire().fail(false);
    leave();
    const second = new Page(['cluster', 'jobs']);
    stream.follow(second);
    await vi.advanceTimersByTimeAsync(1000);
    expect(wires).toHaveLength(1);
    wire().open();
    expect(second.freshened).toBe(1);
    wire().fail(false);
    wire().open();
    expect(second.freshened, 'from then on the records are enough').toBe(1);
  });

  it('what was read while the head was away is read again when it is back', async () => {
    stream.follow(new Page(['jobs']));
    await settle();
    wire().open();
    wire().send('job', 3, {});
    wire().fail(false);
    const page = new Page(['jobs']);
    stream.follow(page);
    await settle();
    wire().fail(false);
    wire().fail(false);
    expect(page.freshened).toBe(1);
    wire().open();
    expect(page.freshened).toBe(2);
  });

  it('fails an open connection that fell silent, and goes on from where it was', async () => {
    const page = new Page(['jobs']);
    stream.follow(page);
    await settle();
    wire().open();
    wire().send('job', 3, {});
    for (const [kind, id] of [['beat', 7], ['beat', 8]] as const) {
      vi.setSystemTime(Date.now() + streamSilenceMillisecondsMax);
      stream.check();
      expect(stream.status.state).toBe('live');
      wire().send(kind, id, {});
    }
    expect(page.records, 'a heartbeat is no news').toHaveLength(1);
    vi.setSystemTime(Date.now() + streamSilenceMillisecondsMax + 1);
    stream.check();
    expect([wire().readyState, stream.status.state]).toEqual([2, 'lost']);
    await vi.advanceTimersByTimeAsync(1000);
    expect(wire().url).toContain('last_event_id=8');
    vi.setSystemTime(Date.now() + streamSilenceMillisecondsMax + 1);
    stream.check();
    expect(wires, 'one that is not open yet is left to the browser').toHaveLength(2);
    wire().open();
    stream.check();
    expect(stream.status.state).toBe('live');
    expect(page.freshened).toBe(1);
  });

  it('leaves out a record that is cut off and stops with the last page', async () => {
    const page = new Page(['jobs']);
    const leave = stream.follow(page);
    await settle();
    wire().open();
    wire().sendText('job', 4, '{"id":');
    expect(page.records).toEqual([]);
    leave();
    await vi.advanceTimersByTimeAsync(200);
    expect(wire().readyState).toBe(2);
    expect(stream.status.state).toBe('idle');
  });
});
