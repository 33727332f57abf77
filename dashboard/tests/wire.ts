import type { Follower, Source } from '../src/live/stream';

type Handler = (event: { data: string; lastEventId: string }) => void;

/** An EventSource in the test's hand. */
export class Wire implements Source {
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
    this.sendText(kind, id, JSON.stringify(data));
  }
  sendText(kind: string, id: number, data: string): void {
    this.handlers.get(kind)?.({ data, lastEventId: String(id) });
  }
  /** The connection breaks: the browser tries again by itself, or gives up after a refusal. */
  fail(gaveUp: boolean): void {
    this.readyState = gaveUp ? 2 : 0;
    this.onerror?.();
  }
}

/** A page that remembers what it was told. */
export class Page implements Follower {
  records: [string, unknown][] = [];
  freshened = 0;
  resumptions = 0;
  constructor(readonly topics: string[]) {}
  record(kind: string, data: unknown): void {
    this.records.push([kind, data]);
  }
  fresh(): void {
    ++this.freshened;
  }
  resumed(): void {
    ++this.resumptions;
  }
}
