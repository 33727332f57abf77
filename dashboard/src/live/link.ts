import { batch, computed, signal, type ReadonlySignal } from '@preact/signals';
import type { News, Port, Wish } from './hub';
import type { Follower, LiveStatus } from './stream';

export interface LinkOptions {
  /**
   * Opens the way to the hub. `failed`: it leads nowhere, and another one must be opened, after a pause of so many
   * milliseconds if it failed for want of the head.
   */
  connect(failed: (pause: number) => void): Port;
  /** The hub says that the browser's session has begun or ended. */
  session(open: boolean): void;
}

type Gathered = Extract<News, { news: 'record' }>;

/**
 * Records wait so long for each other: the ranks of a job report at about the same time, and each delivery renders the
 * page. A timer, since a window that is covered by another one may be given no animation frames.
 */
export const gatherMilliseconds = 100;
/** More than these are not kept waiting, however late the timer comes. */
export const gatheredMax = 10_000;

/**
 * One tab's way to the live records that all tabs share (see Hub). While the tab is hidden it follows nothing; its
 * pages read the present state when it is seen again.
 */
export class LiveLink {
  private readonly followers = new Map<number, Follower>();
  /** Followers that were told at least once to read the present state. */
  private readonly told = new Set<number>();
  private readonly count = signal(0);
  private readonly stream = signal<LiveStatus>({ state: 'connecting', since: Date.now() });
  private nextId = 1;
  private resting = false;
  private port: Port;
  private wishes: Wish[] = [];
  private gathered: Gathered[] = [];
  private gathering: ReturnType<typeof setTimeout> | null = null;

  /** Of the stream; `idle` where this tab follows nothing. */
  readonly status: ReadonlySignal<LiveStatus> = computed(() =>
    this.count.value === 0 ? { state: 'idle', since: 0 } : this.stream.value,
  );

  constructor(private readonly options: LinkOptions) {
    this.port = this.open();
  }

  /** Starts to follow; the result ends it. */
  follow(follower: Follower): () => void {
    const id = this.nextId++;
    this.followers.set(id, follower);
    this.count.value = this.followers.size;
    // A tab that was opened in the background shows what there is; it goes live when it is seen.
    if (this.resting) queueMicrotask(() => this.refresh(id));
    else this.say({ wish: 'follow', id, topics: follower.topics });
    return () => {
      if (!this.followers.delete(id)) return;
      this.told.delete(id);
      this.count.value = this.followers.size;
      if (!this.resting) this.say({ wish: 'leave', id });
    };
  }

  /** The tab is hidden or about to go: the hub carries nothing for it until resume(). */
  rest(): void {
    if (this.resting) return;
    for (const id of this.followers.keys()) this.say({ wish: 'leave', id });
    this.flush(); // a tab that closes gets no later chance
    this.resting = true;
  }

  /** The tab is seen again. */
  resume(): void {
    if (!this.resting) return;
    this.resting = false;
    this.followAll();
  }

  /** Tells the hub that the tab is still there, while it is seen. */
  alive(): void {
    if (!this.resting) this.say({ wish: 'alive' });
  }

  /** Somebody logged in or out with this tab: all tabs are told. */
  session(open: boolean): void {
    this.say({ wish: 'session', open });
  }

  private open(): Port {
    const port = this.options.connect((pause) => {
      if (pause === 0) this.reopen(port);
      else this.lose(port, pause);
    });
    port.onmessage = ({ data }) => {
      if (port === this.port) this.hear(data as News);
    };
    return port;
  }

  private reopen(failed: Port): void {
    if (failed !== this.port) return;
    this.port = this.open();
    this.followAll();
  }

  /** Nothing is live until another way is open. Pages that show nothing yet read what there is: it may take long. */
  private lose(failed: Port, pause: number): void {
    if (failed !== this.port) return;
    if (this.stream.value.state !== 'lost') this.stream.value = { state: 'lost', since: Date.now() };
    setTimeout(() => this.reopen(failed), pause);
    for (const id of [...this.followers.keys()]) if (!this.told.has(id)) this.refresh(id);
  }

  private refresh(id: number): void {
    const follower = this.followers.get(id);
    if (follower === undefined) return;
    this.told.add(id);
    follower.fresh();
  }

  private followAll(): void {
    if (this.resting) return;
    for (const [id, { topics }] of this.followers) this.say({ wish: 'follow', id, topics });
  }

  private hear(news: News): void {
    switch (news.news) {
      case 'status':
        this.stream.value = news.status;
        return;
      case 'record':
        this.gathering ??= setTimeout(() => this.deliver(), gatherMilliseconds);
        if (this.gathered.push(news) >= gatheredMax) this.deliver();
        return;
      case 'fresh':
        this.deliver(); // what is read now is newer than these
        this.refresh(news.id);
        return;
      case 'resumed':
        this.deliver();
        this.followers.get(news.id)?.resumed?.();
        return;
      case 'forgotten':
        this.followAll();
        return;
      case 'session':
        this.options.session(news.open);
        return;
    }
  }

  /** Hands out what has been gathered, in the order in which it came, as one change of what is on screen. */
  private deliver(): void {
    if (this.gathering !== null) clearTimeout(this.gathering);
    this.gathering = null;
    const records = this.gathered;
    this.gathered = [];
    batch(() => {
      for (const { id, kind, data } of records) this.followers.get(id)?.record(kind, data);
    });
  }

  /** What is wished at once is said at once: leaving one page for another is one change of the stream. */
  private say(wish: Wish): void {
    if (this.wishes.push(wish) === 1) queueMicrotask(() => this.flush());
  }

  private flush(): void {
    if (this.wishes.length === 0) return;
    this.port.postMessage(this.wishes);
    this.wishes = [];
  }
}
