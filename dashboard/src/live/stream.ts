import { matches } from './topics';

/** What LiveStream uses of an EventSource, so that tests can stand in for it. */
export interface Source {
  readonly readyState: number;
  addEventListener(kind: string, handler: (event: { data: string; lastEventId: string }) => void): void;
  onopen: (() => void) | null;
  onerror: (() => void) | null;
  close(): void;
}

export interface LiveStatus {
  state: 'idle' | 'connecting' | 'live' | 'lost';
  /** When that state began, in milliseconds since the epoch. */
  since: number;
}

/** Somebody who follows topics: a page, or, in the hub, what stands for a page of a tab. */
export interface Follower {
  readonly topics: readonly string[];
  /** A record of one of the topics. */
  record(kind: string, data: unknown): void;
  /**
   * The stream has just begun to carry a topic of this follower, and what happened before is not in it: read the
   * present state now. Called again when the head no longer has the place where the stream broke off.
   */
  fresh(): void;
  /**
   * The stream goes on after a break, however short, without a fresh(): all records of meanwhile come, but for why a
   * job waits, which the head tells only those who are there. To be read anew where it is shown.
   */
  resumed?(): void;
}

export interface LiveOptions {
  open(url: string): Source;
  /** Finds out why the head refuses the stream; a 401 ends the session elsewhere. */
  probe(): Promise<unknown>;
  now(): number;
  /** The connection's state is another one now. */
  changed(status: LiveStatus): void;
}

const recordKinds = [
  'node',
  'node_removed',
  'event',
  'job',
  'job_end',
  'job_removed',
  'metrics',
  'checkpoint',
  'log',
];
const opened = 1;
const closed = 2;
const retryMillisecondsMax = 10_000;
/** The head says something every 15 seconds at least: a connection that was silent for so long leads nowhere. */
export const streamSilenceMillisecondsMax = 40_000;
/** A topic that nobody follows any more is carried this much longer: the next page often wants it again. */
const lingerMilliseconds = 200;

/**
 * One connection for live records, whoever follows them. When topics come or go the connection is made anew from the
 * last sequence number, so nothing is missed or told twice; the browser does the same by itself (Last-Event-ID) when
 * the connection breaks. Nobody waits for it: pages show what they have and go on when it is back.
 */
export class LiveStream {
  private readonly followers = new Set<Follower>();
  /** Followers that were told at least once to read the present state. */
  private readonly told = new Set<Follower>();
  /** Those that were told while a connection was open: the records that the next one goes on with are all they miss. */
  private readonly caughtUp = new Set<Follower>();
  private source: Source | null = null;
  /** Topics that the present connection carries, sorted. */
  private carried: string[] = [];
  /** Topics whose past is known up to lastId: a connection that goes on from there needs no fresh(). */
  private continuous = new Set<string>();
  private lastId: string | null = null;
  private planned = false;
  private linger: ReturnType<typeof setTimeout> | null = null;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private failures = 0;
  /** When the present connection last told something. */
  private heardAt = 0;
  private current: LiveStatus = { state: 'idle', since: 0 };

  constructor(private readonly options: LiveOptions) {}

  get status(): LiveStatus {
    return this.current;
  }

  /** Starts to follow; the result ends it. */
  follow(follower: Follower): () => void {
    this.followers.add(follower);
    // Its page knows nothing yet, even where another follower already has the topic.
    if (this.current.state === 'live' && follower.topics.every((topic) => this.carried.includes(topic))) {
      queueMicrotask(() => this.refresh((other) => other === follower));
    } else {
      this.plan();
    }
    return () => {
      this.followers.delete(follower);
      this.told.delete(follower);
      this.caughtUp.delete(follower);
      this.linger ??= setTimeout(() => this.plan(), lingerMilliseconds);
    };
  }

  /** Drops the connection, all followers and what it knew; the next follow() starts anew. For the end of a session. */
  stop(): void {
    this.disconnect();
    this.followers.clear();
    this.told.clear();
    this.caughtUp.clear();
    this.lastId = null;
    this.continuous.clear();
    this.set('idle');
  }

  /**
   * Fails a connection that is open and fell silent: a network may vanish without a word, and the browser waits. To be
   * called every now and then.
   */
  check(): void {
    const { source } = this;
    if (source?.readyState !== opened || this.options.now() - this.heardAt <= streamSilenceMillisecondsMax) return;
    source.close();
    this.failed(source);
  }

  /** Whatever changes at once is one change of the connection. */
  private plan(): void {
    if (this.linger !== null) clearTimeout(this.linger);
    this.linger = null;
    if (this.planned) return;
    this.planned = true;
    queueMicrotask(() => {
      this.planned = false;
      const wanted = this.wanted();
      if (this.source !== null && wanted.join() === this.carried.join()) return;
      this.connect(wanted);
    });
  }

  private wanted(): string[] {
    if (this.followers.size === 0) return [];
    // The stream of one job alone ends with the job; ours goes on.
    return [...new Set(['jobs', ...[...this.followers].flatMap((follower) => follower.topics)])].sort();
  }

  private connect(topics: string[]): void {
    this.disconnect();
    this.continuous = new Set(topics.filter((topic) => this.continuous.has(topic)));
    if (topics.length === 0) {
      this.lastId = null;
      this.set('idle');
      return;
    }
    this.carried = topics;
    if (this.current.state === 'idle') this.set('connecting');
    const place = this.lastId === null ? '' : `&last_event_id=${encodeURIComponent(this.lastId)}`;
    const source = this.options.open(`/api/v1/stream?topics=${topics.map(encodeURIComponent).join(',')}${place}`);
    this.source = source;
    source.onopen = () => this.opened();
    source.onerror = () => this.failed(source);
    for (const kind of recordKinds) {
      source.addEventListener(kind, (event) => {
        this.hear(event.lastEventId);
        this.deliver(kind, event.data);
      });
    }
    source.addEventListener('beat', (event) => this.hear(event.lastEventId));
    source.addEventListener('reset', (event) => {
      this.hear(event.lastEventId);
      this.refresh(() => true);
    });
  }

  private disconnect(): void {
    if (this.retry !== null) clearTimeout(this.retry);
    this.retry = null;
    this.source?.close();
    this.source = null;
    this.carried = [];
  }

  private opened(): void {
    this.failures = 0;
    this.heardAt = this.options.now();
    this.set('live');
    const begun = this.carried.filter((topic) => !this.continuous.has(topic));
    // Without a place the stream began with what happens from now on: whatever was missed must be read.
    const all = this.lastId === null;
    this.continuous = new Set(this.carried);
    const behind = (follower: Follower) =>
      all || !this.caughtUp.has(follower) || follower.topics.some((topic) => begun.includes(topic));
    const resumed = [...this.followers].filter((follower) => !behind(follower));
    this.refresh(behind);
    for (const follower of resumed) follower.resumed?.();
  }

  private failed(source: Source): void {
    if (source !== this.source) return;
    if (this.current.state !== 'lost') this.set('lost');
    this.refresh((follower) => !this.told.has(follower));
    if (source.readyState !== closed) return; // the browser tries again by itself
    this.disconnect();
    const delay = Math.min(retryMillisecondsMax, 500 * 2 ** this.failures++) * (0.5 + Math.random() / 2);
    this.retry = setTimeout(() => {
      this.retry = null;
      void this.ask().then(() => {
        if (this.source === null && this.current.state === 'lost') this.connect(this.wanted());
      });
    }, delay);
  }

  /** If the head answers but refuses the stream, one of our topics may be no more: its page finds out by reading. */
  private async ask(): Promise<void> {
    try {
      await this.options.probe();
      if (this.failures > 1) this.refresh(() => true);
    } catch {
      // It is away, or our session has ended: either shows elsewhere.
    }
  }

  private hear(id: string): void {
    this.heardAt = this.options.now();
    if (id !== '') this.lastId = id;
  }

  private deliver(kind: string, text: string): void {
    let data: unknown;
    try {
      data = JSON.parse(text);
    } catch {
      return; // cut off by the end of the connection; it comes again
    }
    for (const follower of [...this.followers]) {
      if (matches(follower.topics, kind, data)) follower.record(kind, data);
    }
  }

  private refresh(which: (follower: Follower) => boolean): void {
    for (const follower of [...this.followers]) {
      if (!which(follower)) continue;
      this.told.add(follower);
      if (this.source?.readyState === opened) this.caughtUp.add(follower);
      follower.fresh();
    }
  }

  private set(state: LiveStatus['state']): void {
    if (this.current.state === state) return;
    this.current = { state, since: this.options.now() };
    this.options.changed(this.current);
  }
}
