import { signal } from '@preact/signals';
import { get } from '../api/client';
import type { Follower } from '../live/stream';
import type { LogChunk, LogRecord } from '../api/types';
import { Resource } from './resource';

export interface LogLine {
  /** Counts up over the whole buffer, so that a line keeps its name when older ones are dropped. */
  id: number;
  worker: number;
  text: string;
}

export const linesMax = 50_000;
const columnsMax = 4000;
/** Characters kept of a line that has not ended: a carriage return or an escape may be cut between two chunks. */
const rawMax = 8192;
const escapes = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])|[\x00-\x08\x0b-\x1f\x7f]/g;
const encoder = new TextEncoder();

/** Output by worker as lines, in the order it came; at most `linesMax`, the oldest are dropped. */
export class LogBuffer {
  private readonly kept: LogLine[] = [];
  private nextId = 0;
  /** Text after the last line break, by worker, as it came, and the line that shows it. */
  private readonly open = new Map<number, { line: LogLine; raw: string }>();
  /** Bytes seen, by worker; null where that cannot be told (bytes that are not UTF-8 come as another length). */
  private readonly offsets = new Map<number, number | null>();
  /** Where in a worker's output its first line here begins, in bytes; null where lines were dropped. */
  private readonly begins = new Map<number, number | null>();

  get lines(): readonly LogLine[] {
    return this.kept;
  }

  /** Where the next chunk of a worker is expected; undefined before its first one. */
  expected(worker: number): number | null | undefined {
    return this.offsets.get(worker);
  }

  /** Where the first line of a worker begins; undefined if there is none yet, null if older ones were dropped. */
  begin(worker: number): number | null | undefined {
    return this.begins.get(worker);
  }

  /** No room for older lines. */
  get full(): boolean {
    return this.kept.length >= linesMax;
  }

  /** Puts whole lines that end where the worker's first line begins before it. */
  prepend(worker: number, offset: number, text: string): void {
    const parts = text.replace(/\n$/, '').split('\n');
    const lines = parts.map((part) => ({ id: this.nextId++, worker, text: clean(part) }));
    const at = this.kept.findIndex((line) => line.worker === worker);
    this.kept.splice(Math.max(0, at), 0, ...lines);
    this.begins.set(worker, offset);
  }

  /** Takes a chunk of output. What an earlier chunk already gave is left out; a hole is marked. */
  append(worker: number, offset: number, text: string, end?: number): boolean {
    const expected = this.offsets.get(worker);
    const length = encoder.encode(text).length;
    let fresh = text;
    if (expected !== null && expected !== undefined) {
      if (offset > expected) this.mark(worker, `… ${offset - expected} bytes are missing here …`);
      if (offset < expected) {
        const known = expected - offset;
        if (length <= known) return false;
        fresh = new TextDecoder().decode(encoder.encode(text).subarray(known));
      }
    }
    const exact = end ?? (text.includes('\ufffd') ? null : offset + length);
    this.offsets.set(worker, exact);
    if (!this.begins.has(worker)) this.begins.set(worker, offset);
    this.add(worker, fresh);
    return true;
  }

  /** A worker's log has become shorter in the head's files and goes on at `offset`. What was seen of it stays here. */
  shorten(worker: number, offset: number): void {
    this.mark(worker, '… the log was shortened here …');
    this.offsets.set(worker, offset);
    const begin = this.begins.get(worker);
    if (begin !== null && begin !== undefined) this.begins.set(worker, Math.min(begin, offset));
  }

  /** Forgets a worker's output. */
  drop(worker: number): void {
    const rest = this.kept.filter((line) => line.worker !== worker);
    this.kept.splice(0, this.kept.length, ...rest);
    for (const known of [this.open, this.offsets, this.begins]) known.delete(worker);
  }

  private add(worker: number, text: string): void {
    const parts = text.split('\n');
    for (const [index, part] of parts.entries()) {
      const last = index === parts.length - 1;
      if (last && part === '') break;
      const open = this.open.get(worker) ?? { line: this.push(worker), raw: '' };
      open.raw = shortened(writtenLast(open.raw + part));
      open.line.text = clean(open.raw);
      if (last) this.open.set(worker, open);
      else this.open.delete(worker);
    }
    if (this.kept.length > linesMax * 1.1) {
      for (const { worker: of } of this.kept.splice(0, this.kept.length - linesMax)) this.begins.set(of, null);
    }
  }

  private mark(worker: number, text: string): void {
    this.open.delete(worker);
    this.push(worker).text = text;
  }

  private push(worker: number): LogLine {
    const line = { id: this.nextId++, worker, text: '' };
    this.kept.push(line);
    return line;
  }
}

/** What a progress line shows: the text after its last carriage return, but for one at the very end. */
function writtenLast(text: string): string {
  return text.slice(text.lastIndexOf('\r', text.length - 2) + 1);
}

/** At most `rawMax` characters. A carriage return at the end stays there: what comes next is written over the line. */
function shortened(text: string): string {
  if (text.length <= rawMax) return text;
  return text.endsWith('\r') ? `${text.slice(0, rawMax - 1)}\r` : text.slice(0, rawMax);
}

/** Control characters and terminal colours are left out; a progress line keeps what was written last. */
function clean(text: string): string {
  const visible = writtenLast(text).replace(escapes, '');
  return visible.length > columnsMax ? `${visible.slice(0, columnsMax)}…` : visible;
}

/** How much output is read at a time, shared by the workers that are read. */
const readBytes = 128 * 1024;
const shareBytesMin = 8192;
/** Workers whose output is read at a time. */
const workersMax = 32;

export type ReadLog = (
  query: { worker: number; offset: number; limit: number },
  signal: AbortSignal,
) => Promise<LogChunk>;

/** The live tail of a job's output: the end of it at first, what the stream brings, and more of the past on demand. */
export class Logs implements Follower {
  readonly topics: string[];
  readonly version = signal(0);
  /** Every worker that has printed something, and how many bytes. */
  readonly workers = signal<{ worker: number; size: number }[]>([]);
  readonly tail = new Resource<LogChunk[]>();
  readonly past = new Resource<LogChunk[]>();
  readonly buffer = new LogBuffer();
  /** The only worker that is looked at; null is all of them. */
  private only: number | null = null;
  /** Live records that came while the tail was being read. */
  private waiting: LogRecord[] | null = null;
  /** Where the last live record of each worker began: the stream tells nothing twice, and one piece after the other. */
  private readonly told = new Map<number, number>();
  private planned = false;

  constructor(
    private readonly job: string,
    private readonly read: ReadLog = (query, signal) =>
      get<LogChunk>(`/api/v1/jobs/${encodeURIComponent(job)}/logs`, query, signal),
  ) {
    this.topics = [`logs:${job}`];
  }

  fresh(): void {
    void this.load();
  }

  record(kind: string, data: unknown): void {
    if (kind === 'job_end') void this.load(); // the last output need not have come
    if (kind !== 'log') return;
    const record = data as LogRecord;
    if (record.job !== this.job) return;
    if (this.waiting !== null) this.waiting.push(record);
    else this.take(record);
  }

  /** Looks at one worker or at all. One whose output has not been read yet is read now. */
  show(worker: number | null): void {
    this.only = worker;
    if (worker !== null && this.tail.data.value !== null && this.buffer.begin(worker) === undefined) {
      void this.readPast();
    }
  }

  /** The workers looked at that have output before their first line here, and how many bytes of it. */
  hidden(): { worker: number; bytes: number }[] {
    return this.workers.value
      .filter(({ worker }) => this.only === null || worker === this.only)
      .map(({ worker, size }) => ({ worker, bytes: this.buffer.begin(worker) ?? size }))
      .filter(({ bytes }) => bytes > 0);
  }

  /** Reads more of what is hidden: workers of which nothing was read come first. */
  async readPast(): Promise<void> {
    const hidden = this.hidden().filter(({ worker }) => this.buffer.begin(worker) !== null);
    const unread = hidden.filter(({ worker }) => this.buffer.begin(worker) === undefined);
    const chosen = (unread.length > 0 ? unread : hidden).slice(0, workersMax);
    const share = shareOf(chosen.length);
    const taken = await this.past.load((signal) =>
      Promise.all(
        chosen.map(({ worker, bytes }) => {
          const offset = Math.max(0, bytes - share);
          return this.read({ worker, offset, limit: bytes - offset }, signal);
        }),
      ),
    );
    if (!taken) return;
    for (const chunk of this.past.data.value ?? []) {
      const begin = this.buffer.begin(chunk.worker);
      // Live output came meanwhile, or the tail was read: what is not just before it must be asked for again.
      const gap = (begin ?? chunk.next_offset) - chunk.next_offset; // a character that a boundary cut is left out
      if (begin === null || gap < 0 || gap > 3) continue;
      const { offset, text } = wholeLines(chunk);
      if (begin === undefined) this.buffer.append(chunk.worker, offset, text, chunk.next_offset);
      else this.buffer.prepend(chunk.worker, offset, text);
    }
    this.changed();
  }

  private async load(): Promise<void> {
    this.waiting ??= [];
    const taken = await this.tail.load(async (signal) => {
      const first = await this.readEnd(this.only ?? 0, readBytes, signal);
      if (this.only !== null) return [first];
      const others = first.workers.filter(({ worker }) => worker !== first.worker).slice(0, workersMax - 1);
      const share = shareOf(others.length + 1);
      return [first, ...(await Promise.all(others.map(({ worker }) => this.readEnd(worker, share, signal))))];
    });
    if (!taken) {
      // A read that came after this one takes them. After a failure they are all there is until it is tried again.
      if (!this.tail.loading.value) this.takeWaiting();
      return;
    }
    const chunks = this.tail.data.value ?? [];
    this.workers.value = chunks[0]?.workers ?? [];
    for (const chunk of chunks) {
      const expected = this.buffer.expected(chunk.worker);
      if (chunk.size === 0 && expected === undefined) continue;
      // Where we stopped cannot be told: what is here might come twice.
      if (expected === null) this.buffer.drop(chunk.worker);
      else if (expected !== undefined && chunk.size < expected) {
        this.buffer.shorten(chunk.worker, chunk.offset);
        this.told.delete(chunk.worker);
      }
      const { offset, text } = this.buffer.expected(chunk.worker) === chunk.offset ? chunk : wholeLines(chunk);
      this.buffer.append(chunk.worker, offset, text, chunk.next_offset);
    }
    this.takeWaiting();
    this.changed();
  }

  private takeWaiting(): void {
    const waiting = this.waiting ?? [];
    this.waiting = null;
    for (const record of waiting) this.take(record);
  }

  /** What a worker has printed since we last heard of it; only the end of it where that is much. */
  private async readEnd(worker: number, bytes: number, signal: AbortSignal): Promise<LogChunk> {
    const known = this.buffer.expected(worker);
    if (known !== null && known !== undefined) {
      const news = await this.read({ worker, offset: known, limit: bytes }, signal);
      if (news.size >= known && news.next_offset >= news.size) return news;
    }
    return this.read({ worker, offset: -bytes, limit: bytes }, signal);
  }

  private take(record: LogRecord): void {
    // One that was read before it came begins before what is expected, too, but not before the record before it.
    if (record.offset <= (this.told.get(record.worker) ?? -1)) this.buffer.shorten(record.worker, record.offset);
    this.told.set(record.worker, record.offset);
    if (!this.buffer.append(record.worker, record.offset, record.text)) return;
    const size = record.offset + encoder.encode(record.text).length;
    const known = this.workers.value.find(({ worker }) => worker === record.worker);
    if (known !== undefined) known.size = size; // shown with the next version
    else {
      this.workers.value = [...this.workers.value, { worker: record.worker, size }].sort((a, b) => a.worker - b.worker);
    }
    this.changed();
  }

  /** Workers may print thousands of lines a second: they are laid out once per picture. */
  private changed(): void {
    if (this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => {
      this.planned = false;
      ++this.version.value;
    });
  }
}

function shareOf(workers: number): number {
  return Math.max(shareBytesMin, Math.floor(readBytes / Math.max(1, workers)));
}

/** A chunk may begin in the middle of a line: that piece is left out, unless it is all there is. */
function wholeLines({ offset, next_offset: end, text }: LogChunk): { offset: number; text: string } {
  const rest = offset === 0 ? text : text.slice(text.indexOf('\n') + 1);
  if (rest === '' || rest === text) return { offset, text };
  // Bytes that are not UTF-8 cannot be counted in the text: then the piece stays hidden for good.
  return { offset: rest.includes('\ufffd') ? offset : end - encoder.encode(rest).length, text: rest };
}
