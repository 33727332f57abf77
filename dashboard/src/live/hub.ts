import { LiveStream, type LiveOptions, type LiveStatus } from './stream';

/** What a tab tells the hub, several at a time. `id` is the tab's own number of a follower. */
export type Wish =
  | { wish: 'follow'; id: number; topics: readonly string[] }
  | { wish: 'leave'; id: number }
  | { wish: 'alive' }
  /** Somebody logged in or out with this tab. */
  | { wish: 'session'; open: boolean };

/** What the hub tells a tab. */
export type News =
  | { news: 'status'; status: LiveStatus }
  | { news: 'record'; id: number; kind: string; data: unknown }
  | { news: 'fresh'; id: number }
  | { news: 'resumed'; id: number }
  /** The hub has dropped this tab's followers, since it was silent for too long. */
  | { news: 'forgotten' }
  /** The browser's session has begun or ended. */
  | { news: 'session'; open: boolean };

/** What Hub and LiveLink use of a MessagePort, so that tests can stand in for it. */
export interface Port {
  postMessage(message: unknown): void;
  onmessage: ((event: MessageEvent) => void) | null;
}

export interface HubOptions extends Pick<LiveOptions, 'open' | 'now'> {
  /** Whether the head takes the browser's session. Throws if the head cannot be reached. */
  admitted(): Promise<boolean>;
}

interface Tab {
  /** How each follower of the tab leaves the stream. */
  leave: Map<number, () => void>;
  heardAt: number;
}

/** A tab that is seen says `alive` this often, and is forgotten when it has said nothing for so long. */
export const aliveMilliseconds = 10_000;
export const silenceMillisecondsMax = 30_000;

/**
 * The browser's one place for live records: it holds the stream that all tabs share and passes each tab what its pages
 * follow. Runs in a SharedWorker, which lives as long as any tab of the dashboard does. A tab that is closed or hidden
 * takes its leave; one that crashed cannot, so tabs that fall silent are forgotten.
 */
export class Hub {
  private readonly tabs = new Map<Port, Tab>();
  private readonly stream: LiveStream;
  /** Counts logins, so that an answer from before one says nothing about the session after it. */
  private logins = 0;

  constructor(private readonly options: HubOptions) {
    this.stream = new LiveStream({
      open: (url) => options.open(url),
      now: () => options.now(),
      probe: () => this.probe(),
      changed: (status) => this.tell({ news: 'status', status }),
    });
  }

  connect(port: Port): void {
    port.onmessage = ({ data }) => {
      const tab = this.tabOf(port);
      tab.heardAt = this.options.now();
      for (const wish of data as Wish[]) this.take(port, tab, wish);
    };
    this.tabOf(port);
  }

  /** Forgets the tabs that fell silent, and gives up a stream that did. To be called every now and then. */
  expire(): void {
    this.stream.check();
    const now = this.options.now();
    for (const [port, tab] of this.tabs) {
      if (now - tab.heardAt <= silenceMillisecondsMax) continue;
      for (const leave of tab.leave.values()) leave();
      this.tabs.delete(port);
      // It may only have slept: then it follows anew when it reads this.
      post(port, { news: 'forgotten' });
    }
  }

  private tabOf(port: Port): Tab {
    let tab = this.tabs.get(port);
    if (tab === undefined) {
      tab = { leave: new Map(), heardAt: this.options.now() };
      this.tabs.set(port, tab);
      post(port, { news: 'status', status: this.stream.status });
    }
    return tab;
  }

  private take(port: Port, tab: Tab, wish: Wish): void {
    switch (wish.wish) {
      case 'follow': {
        const { id, topics } = wish;
        tab.leave.get(id)?.();
        const leave = this.stream.follow({
          topics,
          record: (kind, data) => post(port, { news: 'record', id, kind, data }),
          fresh: () => post(port, { news: 'fresh', id }),
          resumed: () => post(port, { news: 'resumed', id }),
        });
        tab.leave.set(id, leave);
        return;
      }
      case 'leave':
        tab.leave.get(wish.id)?.();
        tab.leave.delete(wish.id);
        return;
      case 'session':
        if (wish.open) ++this.logins;
        else this.drop();
        this.tell({ news: 'session', open: wish.open });
        return;
      case 'alive':
        return;
    }
  }

  private async probe(): Promise<void> {
    const { logins } = this;
    if (await this.options.admitted()) return;
    if (logins === this.logins) {
      this.drop();
      this.tell({ news: 'session', open: false });
    }
    throw new Error('no session');
  }

  /** The session is over: nobody follows anything until somebody has logged in. */
  private drop(): void {
    this.stream.stop();
    for (const tab of this.tabs.values()) tab.leave.clear();
  }

  private tell(news: News): void {
    for (const port of this.tabs.keys()) post(port, news);
  }
}

function post(port: Port, news: News): void {
  port.postMessage(news);
}
