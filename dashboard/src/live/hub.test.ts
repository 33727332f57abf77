import { effect, signal } from '@preact/signals';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Page, Wire } from '../../tests/wire';
import { aliveMilliseconds, Hub, silenceMillisecondsMax, type Port } from './hub';
import { gatheredMax, gatherMilliseconds, LiveLink } from './link';
import { streamSilenceMillisecondsMax } from './stream';

/** The two ends of a channel; messages are copied and come later, as a MessageChannel's do. */
function channel(): [Port, Port] {
  const ends: [Port, Port] = [
    { onmessage: null, postMessage: (message) => send(ends[1], message) },
    { onmessage: null, postMessage: (message) => send(ends[0], message) },
  ];
  const send = (to: Port, message: unknown) => {
    const data: unknown = structuredClone(message);
    queueMicrotask(() => to.onmessage?.({ data } as MessageEvent));
  };
  return ends;
}

describe('Hub', () => {
  let wires: Wire[];
  let hub: Hub;
  let admitted: ReturnType<typeof vi.fn<() => Promise<boolean>>>;
  const settle = () => vi.advanceTimersByTimeAsync(0);
  const wire = () => wires.at(-1)!;

  beforeEach(() => {
    vi.useFakeTimers();
    wires = [];
    admitted = vi.fn(() => Promise.resolve(true));
    hub = new Hub({
      open: (url) => {
        wires.push(new Wire(url));
        return wire();
      },
      admitted,
      now: () => Date.now(),
    });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function tab() {
    const session = vi.fn<(open: boolean) => void>();
    const link = new LiveLink({
      session,
      connect: () => {
        const [here, there] = channel();
        hub.connect(there);
        return here;
      },
    });
    return { link, session };
  }

  it('carries what all tabs follow over one connection and gives each tab its own', async () => {
    const tabs = [0, 1, 2, 3, 4, 5, 6, 7].map((job) => {
      const { link } = tab();
      const page = new Page([`job:${job}`]);
      link.follow(page);
      return { link, page };
    });
    await settle();
    expect(wires.filter(({ readyState }) => readyState !== 2)).toHaveLength(1);
    expect(wire().url).toBe(
      `/api/v1/stream?topics=${tabs.map((_, job) => `job%3A${job}`).join(',')},jobs`,
    );
    wire().open();
    for (let job = 0; job < 8; ++job) wire().send('metrics', 10 + job, { job: String(job), points: [] });
    await vi.advanceTimersByTimeAsync(gatherMilliseconds);
    for (const [job, { link, page }] of tabs.entries()) {
      expect(link.status.value.state).toBe('live');
      expect(page.freshened).toBe(1);
      expect(page.records).toEqual([['metrics', { job: String(job), points: [] }]]);
    }
  });

  it('goes on without gap or repeat when a tab comes or closes', async () => {
    const first = tab();
    const page = new Page(['job:1']);
    first.link.follow(page);
    await settle();
    wire().open();
    wire().send('metrics', 41, { job: '1', points: [1] });
    const second = tab();
    second.link.follow(new Page(['job:2']));
    await settle();
    expect(wires[0]!.readyState).toBe(2);
    expect(wire().url).toBe('/api/v1/stream?topics=job%3A1,job%3A2,jobs&last_event_id=41');
    wire().open();
    wire().send('metrics', 42, { job: '1', points: [2] });
    second.link.rest(); // pagehide
    await vi.advanceTimersByTimeAsync(1000);
    expect(wire().url).toBe('/api/v1/stream?topics=job%3A1,jobs&last_event_id=42');
    wire().open();
    await settle();
    expect(page.freshened).toBe(1);
    expect(page.records.map(([, data]) => (data as { points: number[] }).points[0])).toEqual([1, 2]);
  });

  it('holds nothing for a hidden tab, which catches up when it is seen', async () => {
    const { link } = tab();
    const page = new Page(['job:1']);
    link.follow(page);
    await settle();
    wire().open();
    link.rest();
    await vi.advanceTimersByTimeAsync(1000);
    expect(wire().readyState).toBe(2);
    const opened = new Page(['logs:1']);
    const leave = link.follow(opened);
    await settle();
    expect(opened.freshened, 'opened in the background, it shows what there is').toBe(1);
    expect(wires).toHaveLength(1);
    leave();
    link.resume();
    await settle();
    expect(wire().url).toBe('/api/v1/stream?topics=job%3A1,jobs');
    wire().open();
    await settle();
    expect([page.freshened, opened.freshened]).toEqual([2, 1]);
  });

  describe('many records', () => {
    /** A page that draws what it was told last, and counts how often. */
    async function drawn() {
      const { link } = tab();
      const told: unknown[] = [];
      const last = signal<unknown>(null);
      let drawings = -1; // the first one is of nothing
      effect(() => {
        last.value;
        ++drawings;
      });
      const take = (what: unknown) => {
        told.push(what);
        last.value = what;
      };
      const topics = ['job:1'];
      const leave = link.follow({
        topics,
        record: (_, data) => take((data as { step: number }).step),
        fresh: () => take('fresh'),
      });
      await settle();
      wire().open();
      await settle();
      return { told, leave, drawings: () => drawings };
    }
    const send = (step: number) => wire().send('metrics', 10 + step, { job: '1', step });
    const steps = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

    it('are one change of the page, soon', async () => {
      const { told, drawings } = await drawn();
      for (const step of steps(64)) send(step);
      await settle();
      expect(told).toEqual(['fresh']);
      await vi.advanceTimersByTimeAsync(gatherMilliseconds);
      expect(told).toEqual(['fresh', ...steps(64)]);
      expect(drawings()).toBe(2);
      send(65);
      await vi.advanceTimersByTimeAsync(gatherMilliseconds);
      expect(told.at(-1)).toBe(65);
    });

    it('are told before the page is told to read anew', async () => {
      const { told } = await drawn();
      for (const step of steps(3)) send(step);
      wire().send('reset', 900, {});
      await settle();
      expect(told).toEqual(['fresh', 1, 2, 3, 'fresh']);
      await vi.advanceTimersByTimeAsync(1000);
      expect(told).toHaveLength(5);
    });

    it('do not wait in any number, and not for a page that has been left', async () => {
      const { told, leave } = await drawn();
      for (const step of steps(gatheredMax + 5)) send(step);
      await settle();
      expect(told).toHaveLength(1 + gatheredMax);
      leave();
      await vi.advanceTimersByTimeAsync(1000);
      expect(told).toHaveLength(1 + gatheredMax);
    });
  });

  it('forgets a tab that crashed; one that only slept follows again', async () => {
    const alive = tab();
    const [crashed, end] = channel();
    hub.connect(end);
    const slept = tab();
    const page = new Page(['job:3']);
    alive.link.follow(new Page(['job:1']));
    crashed.postMessage([{ wish: 'follow', id: 1, topics: ['job:2'] }]); // and never again anything
    slept.link.follow(page);
    await settle();
    wire().open();
    wire().send('job', 5, { id: '1' });
    await settle();
    for (let passed = 0; passed <= silenceMillisecondsMax; passed += aliveMilliseconds) {
      await vi.advanceTimersByTimeAsync(aliveMilliseconds);
      alive.link.alive();
      await settle();
      hub.expire();
    }
    await vi.advanceTimersByTimeAsync(1000);
    expect(wire().url).toContain('topics=job%3A1,job%3A3,jobs');
    wire().open();
    await settle();
    expect(page.freshened).toBe(2);
  });

  it('tells a tab that the stream goes on, after what came before', async () => {
    const { link } = tab();
    const told: string[] = [];
    link.follow({
      topics: ['jobs'],
      record: (kind) => told.push(kind),
      fresh: () => told.push('fresh'),
      resumed: () => told.push('resumed'),
    });
    await settle();
    wire().open();
    wire().send('job', 5, { id: '1' });
    wire().fail(false);
    wire().open();
    await settle();
    expect(told).toEqual(['fresh', 'job', 'resumed']);
  });

  it('gives up a stream that fell silent', async () => {
    const { link } = tab();
    link.follow(new Page(['jobs']));
    await settle();
    wire().open();
    await settle();
    vi.setSystemTime(Date.now() + streamSilenceMillisecondsMax + 1);
    hub.expire();
    await settle();
    expect(link.status.value.state).toBe('lost');
  });

  it('tells every tab when the session has ended, and when somebody has logged in again', async () => {
    const first = tab();
    const second = tab();
    first.link.follow(new Page(['jobs']));
    await settle();
    wire().open();
    admitted.mockResolvedValue(false);
    wire().fail(true);
    await vi.advanceTimersByTimeAsync(1000);
    expect([first.session.mock.calls, second.session.mock.calls]).toEqual([[[false]], [[false]]]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(wires, 'nobody asks again without a session').toHaveLength(1);

    second.link.session(true);
    await settle();
    expect(first.session).toHaveBeenLastCalledWith(true);
    const page = new Page(['jobs']);
    first.link.follow(page);
    await settle();
    wire().open();
    await settle();
    expect(page.freshened).toBe(1);
    first.link.session(false);
    await settle();
    expect(second.session).toHaveBeenLastCalledWith(false);
    expect(wire().readyState).toBe(2);
  });

  it('a refusal from before a login does not end the session after it', async () => {
    const { link, session } = tab();
    let refuse = () => {};
    admitted.mockReturnValue(
      new Promise((resolve) => {
        refuse = () => resolve(false);
      }),
    );
    link.follow(new Page(['jobs']));
    await settle();
    wire().fail(true);
    await vi.advanceTimersByTimeAsync(1000);
    expect(admitted).toHaveBeenCalledTimes(1);
    link.session(true);
    await settle();
    refuse();
    await settle();
    expect(session.mock.calls).toEqual([[true]]);
  });

  /** A tab of which so many ways to the hub lead nowhere, and what each of them calls when it has failed. */
  function misled(ways: number) {
    const failures: ((pause: number) => void)[] = [];
    const link = new LiveLink({
      session: () => {},
      connect: (failed) => {
        failures.push(failed);
        const [here, there] = channel();
        if (failures.length > ways) hub.connect(there);
        return here;
      },
    });
    return { link, failures };
  }

  it('a tab whose way to the hub leads nowhere takes another and follows there', async () => {
    const { link, failures } = misled(1);
    const page = new Page(['jobs']);
    link.follow(page);
    await settle();
    expect(wires).toHaveLength(0);
    failures[0]!(0);
    await settle();
    wire().open();
    await settle();
    expect(page.freshened).toBe(1);
  });

  it('a tab without a way to the hub says so, shows what there is and tries again', async () => {
    const { link, failures } = misled(2);
    const page = new Page(['jobs']);
    link.follow(page);
    await settle();
    const since = Date.now();
    for (const attempt of [0, 1]) {
      failures[attempt]!(2000);
      expect(link.status.value).toEqual({ state: 'lost', since });
      expect(page.freshened).toBe(1);
      await vi.advanceTimersByTimeAsync(1999);
      expect(failures, 'not at once').toHaveLength(attempt + 1);
      await vi.advanceTimersByTimeAsync(1);
      expect(failures).toHaveLength(attempt + 2);
    }
    await settle();
    wire().open();
    await settle();
    expect(link.status.value.state).toBe('live');
    expect(page.freshened, 'it may have missed something').toBe(2);
  });
});
