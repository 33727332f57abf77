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

const linesMax = 50_000;
const columnsMax = 4000;
const escapes = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])|[\x00-\x08\x0b-\x1f\x7f]/g;
const encoder = new TextEncoder();

/** Output by worker as lines, in the order it came; at most `linesMax`, the oldest are dropped. */
export class LogBuffer {
  private readonly kept: LogLine[] = [];
  private nextId = 0;
  /** Text after the last line break, by worker, and the line that shows it. */
  private readonly open = new Map<number, LogLine>();
  /** Bytes seen, by worker; null where that cannot be told (bytes that are not UTF-8 come as another length). */
  private readonly offsets = new Map<number, number | null>();

  get lines(): readonly LogLine[] {
    return this.kept;
  }

  /** Where the next chunk of a worker is expected; undefined before its first one. */
  expected(worker: number): number | null | undefined {
    return this.offsets.get(worker);
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
    this.add(worker, fresh);
    return true;
  }

  clear(): void {
    this.kept.length = 0;
    this.open.clear();
    this.offsets.clear();
  }

  private add(worker: number, text: string): void {
    const parts = text.split('\n');
    for (const [index, part] of parts.entries()) {
      const last = index === parts.length - 1;
      if (last && part === '') break;
      const line = this.open.get(worker) ?? this.push(worker);
      line.text = clean(line.text + part);
      if (last) this.open.set(worker, line);
      else this.open.delete(worker);
    }
    if (this.kept.length > linesMax * 1.1) this.kept.splice(0, this.kept.length - linesMax);
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

/** Control characters and terminal colours are left out; a progress line keeps what was written last. */
function clean(text: string): string {
  const back = text.lastIndexOf('\r', text.length - 2);
  const visible = (back >= 0 ? text.slice(back + 1) : text).replace(escapes, '');
  return visible.length > columnsMax ? `${visible.slice(0, columnsMax)}…` : visible;
}

/** How much of the end of the output is read at first. */
const tailBytes = 128 * 1024;

/** The live tail of a job's output: the end of it at first, then what the stream brings. */
export class Logs implements Follower {
  readonly topics: string[];
  readonly version = signal(0);
  readonly workers = signal<{ worker: number; size: number }[]>([]);
  /** Whether there is output before the first line kept. */
  readonly cut = signal(false);
  readonly tail = new Resource<LogChunk[]>();
  readonly buffer = new LogBuffer();
  /** Live records that came while the tail was being read. */
  private waiting: LogRecord[] | null = null;
  private planned = false;

  constructor(private readonly job: string) {
    this.topics = [`logs:${job}`];
  }

  fresh(): void {
    void this.load();
  }

  record(kind: string, data: unknown): void {
    if (kind !== 'log') return;
    const record = data as LogRecord;
    if (record.job !== this.job) return;
    if (this.waiting !== null) this.waiting.push(record);
    else this.take(record);
  }

  private async load(): Promise<void> {
    const path = `/api/v1/jobs/${encodeURIComponent(this.job)}/logs`;
    this.waiting ??= [];
    const taken = await this.tail.load(async (signal) => {
      const first = await get<LogChunk>(path, { worker: 0, offset: -tailBytes, limit: tailBytes }, signal);
      const others = first.workers.filter(({ worker }) => worker !== first.worker).slice(0, 31);
      const share = Math.max(8192, Math.floor(tailBytes / (others.length + 1)));
      const rest = others.map(({ worker }) => get<LogChunk>(path, { worker, offset: -share, limit: share }, signal));
      return [first, ...(await Promise.all(rest))];
    });
    if (!taken) return;
    const chunks = this.tail.data.value ?? [];
    this.buffer.clear();
    this.cut.value = chunks.some((chunk) => chunk.offset > 0);
    this.workers.value = chunks[0]?.workers ?? [];
    for (const chunk of chunks) {
      if (chunk.size > 0) this.buffer.append(chunk.worker, chunk.offset, wholeLines(chunk), chunk.next_offset);
    }
    const waiting = this.waiting;
    this.waiting = null;
    for (const record of waiting) this.take(record);
    this.changed();
  }

  private take(record: LogRecord): void {
    if (!this.buffer.append(record.worker, record.offset, record.text)) return;
    const size = record.offset + record.text.length;
    const known = this.workers.value;
    if (!known.some(({ worker }) => worker === record.worker)) {
      this.workers.value = [...known, { worker: record.worker, size }].sort((a, b) => a.worker - b.worker);
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

/** A tail begins in the middle of a line: that piece is left out. */
function wholeLines(chunk: LogChunk): string {
  if (chunk.offset === 0) return chunk.text;
  return chunk.text.slice(chunk.text.indexOf('\n') + 1);
}
