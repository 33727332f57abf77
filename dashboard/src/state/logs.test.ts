import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { LogChunk } from '../api/types';
import { findLines, layout, nextMatch, pieces, visible } from '../components/log_rows';
import { LogBuffer, Logs } from './logs';

const texts = (buffer: LogBuffer) => buffer.lines.map(({ worker, text }) => `${worker}:${text}`);

describe('LogBuffer', () => {
  it('joins a line that comes in pieces, per worker', () => {
    const buffer = new LogBuffer();
    buffer.append(0, 0, 'step 1\nste');
    buffer.append(1, 0, 'hello\n');
    buffer.append(0, 10, 'p 2\n');
    expect(texts(buffer)).toEqual(['0:step 1', '0:step 2', '1:hello']);
  });

  it('leaves out what it has seen and marks what is missing', () => {
    const buffer = new LogBuffer();
    buffer.append(0, 0, 'one\ntwo\n');
    expect(buffer.append(0, 0, 'one\ntwo\n')).toBe(false);
    expect(buffer.append(0, 4, 'two\nthree\n')).toBe(true);
    buffer.append(0, 20, 'five\n');
    expect(texts(buffer)).toEqual(['0:one', '0:two', '0:three', '0:… 6 bytes are missing here …', '0:five']);
  });

  it('counts bytes, not characters', () => {
    const buffer = new LogBuffer();
    buffer.append(0, 0, 'größe\n');
    expect(buffer.expected(0)).toBe(8);
    buffer.append(0, 8, 'next\n');
    expect(texts(buffer)).toEqual(['0:größe', '0:next']);
  });

  it('trusts the head where bytes were not UTF-8', () => {
    const buffer = new LogBuffer();
    buffer.append(0, 0, 'bad \ufffd\n');
    expect(buffer.expected(0)).toBeNull();
    buffer.append(0, 6, 'next\n');
    expect(texts(buffer)).toEqual(['0:bad \ufffd', '0:next']);
  });

  it('shows text only: no terminal colours, the end of a progress line, no endless line', () => {
    const buffer = new LogBuffer();
    buffer.append(0, 0, '\x1b[31mred\x1b[0m\x07\n10 %\r20 %\r30 %\nwindows\r\n' + 'x'.repeat(9000) + '\n');
    const lines = buffer.lines.map(({ text }) => text);
    expect(lines.slice(0, 3)).toEqual(['red', '30 %', 'windows']);
    expect(lines[3]).toHaveLength(4001);
  });

  it('joins progress and colours that are cut between chunks', () => {
    const buffer = new LogBuffer();
    let offset = 0;
    const shown = (chunk: string) => {
      buffer.append(0, offset, chunk);
      offset += chunk.length;
      return buffer.lines.at(-1)?.text;
    };
    expect([shown('10%\r'), shown('20%\r'), shown('30%')]).toEqual(['10%', '20%', '30%']);
    expect([shown('\r\x1b[3'), shown('2mgreen\x1b[0m\n')].at(-1)).toBe('green');
    expect([shown('windows\r'), shown('\n')]).toEqual(['windows', 'windows']);
    for (let part = 0; part < 5; ++part) expect(shown('x'.repeat(3000))?.length).toBeLessThanOrEqual(4001);
    expect(shown('\rshort')).toBe('short');
    shown(`${'x'.repeat(9000)}\r`);
    expect([shown('written over'), shown('\r'), shown('again')]).toEqual(['written over', 'written over', 'again']);
    expect(buffer.lines).toHaveLength(3);
  });

  it('is bounded and keeps the newest', () => {
    const buffer = new LogBuffer();
    let offset = 0;
    for (let batch = 0; batch < 120; ++batch) {
      const text = Array.from({ length: 1000 }, (_, line) => `${batch * 1000 + line}\n`).join('');
      buffer.append(0, offset, text);
      offset += text.length;
    }
    expect(buffer.lines.length).toBeLessThanOrEqual(56_000);
    expect(buffer.lines.at(-1)?.text).toBe('119999');
  });
});

describe('log rows', () => {
  it('finds the lines in view', () => {
    const wrapped = layout([10, 250, 0, 99], 100);
    expect(wrapped.rows).toBe(6);
    expect(visible(wrapped, 0, 6)).toEqual([0, 4]);
    expect(visible(wrapped, 2, 3)).toEqual([1, 2]);
    expect(visible(wrapped, 4, 5)).toEqual([2, 3]);
    expect(visible(layout([], 100), 0, 50)).toEqual([0, 0]);
    expect(visible(layout(new Array(1_000_000).fill(5), null), 500_000, 500_040)).toEqual([500_000, 500_040]);
  });

  it('finds text, whatever its case, and cuts lines around it', () => {
    expect(findLines([{ text: 'Loss 1' }, { text: 'x' }, { text: 'a loss' }], 'loss')).toEqual([0, 2]);
    expect(pieces('a Loss, a loss', 'loss')).toEqual(['a ', 'Loss', ', a ', 'loss', '']);
    expect(pieces('<b>', '')).toEqual(['<b>']);
  });

  it('goes from match to match, and while the end is followed to the one that is counted', () => {
    expect(nextMatch(0, 1, 12, true)).toBe(0);
    expect([nextMatch(0, 1, 12, false), nextMatch(11, 1, 12, false), nextMatch(0, -1, 12, false)]).toEqual([1, 0, 11]);
    expect(nextMatch(8, 1, 3, true), 'of fewer matches than before').toBe(2);
  });
});

describe('Logs', () => {
  /** What each worker has printed; as the head, this one ends a chunk between characters. */
  let printed: Buffer[];
  let asked: { worker: number; offset: number; limit: number }[];
  let logs: Logs;

  const line = (worker: number, at: number) => `w${worker} line ${at} größe ${'.'.repeat(at % 37)}\n`;
  const output = (worker: number, lines: number) =>
    Buffer.from(Array.from({ length: lines }, (_, at) => line(worker, at)).join(''));
  const read = (query: { worker: number; offset: number; limit: number }): Promise<LogChunk> => {
    asked.push(query);
    const { worker } = query;
    const all = printed[worker] ?? Buffer.alloc(0);
    const offset = query.offset < 0 ? Math.max(0, all.length + query.offset) : Math.min(query.offset, all.length);
    let end = Math.min(all.length, offset + query.limit);
    while (end < all.length && (all[end]! & 0xc0) === 0x80) --end;
    return Promise.resolve({
      job: 'a',
      worker,
      offset,
      next_offset: end,
      size: all.length,
      complete: false,
      text: all.subarray(offset, end).toString(),
      workers: printed.flatMap(({ length }, rank) => (length > 0 ? [{ worker: rank, size: length }] : [])),
    });
  };
  const settle = () => vi.waitFor(() => expect(logs.tail.loading.value || logs.past.loading.value).toBe(false));
  const lines = (worker: number) =>
    logs.buffer.lines.filter((one) => one.worker === worker).map(({ text }) => `${text}\n`);

  beforeEach(() => {
    vi.stubGlobal('requestAnimationFrame', (draw: () => void) => queueMicrotask(draw));
    asked = [];
    logs = new Logs('a', read);
  });
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('reads the end at first and, asked for more, everything to the first line, each line once', async () => {
    printed = [output(0, 20_000)];
    const all = Array.from({ length: 20_000 }, (_, at) => line(0, at));
    logs.fresh();
    await settle();
    expect(lines(0)).toEqual(all.slice(-lines(0).length));
    expect(logs.hidden()).toEqual([
      { worker: 0, bytes: Buffer.byteLength(all.slice(0, -lines(0).length).join('')) },
    ]);
    for (let rounds = 0; logs.hidden().length > 0; ++rounds) {
      expect(rounds).toBeLessThan(10);
      await logs.readPast();
      expect(lines(0)).toEqual(all.slice(-lines(0).length));
    }
    expect(lines(0)).toEqual(all);
  });

  it('tells how much a worker has printed by now', async () => {
    printed = [Buffer.from('one\n')];
    logs.fresh();
    await settle();
    logs.record('log', { job: 'a', worker: 0, offset: 4, text: 'two\n' });
    logs.record('log', { job: 'a', worker: 1, offset: 0, text: 'größe\n' });
    expect(logs.workers.value).toEqual([
      { worker: 0, size: 8 },
      { worker: 1, size: 8 },
    ]);
  });

  it('says of which workers nothing is shown, and reads them too', async () => {
    printed = Array.from({ length: 40 }, (_, worker) => output(worker, 10));
    logs.fresh();
    await settle();
    expect(logs.workers.value).toHaveLength(40);
    expect(logs.hidden().map(({ worker }) => worker)).toEqual([32, 33, 34, 35, 36, 37, 38, 39]);
    await logs.readPast();
    expect(logs.hidden()).toEqual([]);
    for (let worker = 0; worker < 40; ++worker) {
      expect(lines(worker)).toEqual(Array.from({ length: 10 }, (_, at) => line(worker, at)));
    }
  });

  it('reads a worker that is chosen, whatever its rank', async () => {
    printed = Array.from({ length: 40 }, (_, worker) => output(worker, 10));
    logs.fresh();
    await settle();
    logs.show(39);
    await settle();
    expect(logs.hidden()).toEqual([]);
    expect(lines(39)).toHaveLength(10);
    expect(lines(38)).toEqual([]);
  });

  it('keeps what it has when it reads anew, and goes on from there', async () => {
    printed = [output(0, 20_000)];
    logs.fresh();
    await settle();
    await logs.readPast();
    const before = lines(0);
    printed = [Buffer.concat([printed[0]!, Buffer.from('one more\n')])];
    asked = [];
    logs.fresh();
    await settle();
    expect(asked.map(({ offset }) => offset)).toEqual([printed[0]!.length - 9]);
    expect(lines(0)).toEqual([...before, 'one more\n']);
  });

  it('reads the end once more when the job has ended: not all of it need have come', async () => {
    printed = [output(0, 10)];
    logs.fresh();
    await settle();
    printed = [Buffer.concat([printed[0]!, Buffer.from('the last words\n')])];
    asked = [];
    logs.record('job_end', { id: 'a' });
    await settle();
    expect(asked).toHaveLength(1);
    expect(lines(0)).toEqual([...Array.from({ length: 10 }, (_, at) => line(0, at)), 'the last words\n']);
  });

  it('marks the hole where more was printed meanwhile than is read at once', async () => {
    printed = [output(0, 10)];
    logs.fresh();
    await settle();
    printed = [output(0, 20_000)];
    logs.fresh();
    await settle();
    expect(lines(0).filter((text) => text.includes('bytes are missing here'))).toHaveLength(1);
    expect(lines(0).at(-1)).toBe(line(0, 19_999));
  });

  describe('a log that somebody shortens', () => {
    const note = '… the log was shortened here …\n';
    const live = (offset: number, text: string) => logs.record('log', { job: 'a', worker: 0, offset, text });

    beforeEach(async () => {
      printed = [Buffer.from('one\ntwo\n')];
      logs.fresh();
      await settle();
    });

    it('goes on live from where it was cut', () => {
      live(8, 'three\n');
      live(0, 'four\n');
      live(5, 'five\n');
      expect(lines(0)).toEqual(['one\n', 'two\n', 'three\n', note, 'four\n', 'five\n']);
      expect(logs.hidden()).toEqual([]);
    });

    it('is told from live output that was read before it came', () => {
      live(0, 'one\n');
      live(4, 'two\n');
      live(8, 'three\n');
      expect(lines(0)).toEqual(['one\n', 'two\n', 'three\n']);
    });

    it('is read anew, and what comes live goes on from there', async () => {
      live(8, 'three\n');
      printed = [Buffer.from('four\n')];
      logs.fresh();
      live(0, 'four\n');
      await settle();
      live(5, 'five\n');
      expect(lines(0)).toEqual(['one\n', 'two\n', 'three\n', note, 'four\n', 'five\n']);
    });

    it('may be empty when it is read', async () => {
      printed = [Buffer.alloc(0)];
      logs.fresh();
      await settle();
      live(0, 'four\n');
      expect(lines(0)).toEqual(['one\n', 'two\n', note, 'four\n']);
    });
  });

  describe('a read of the end that fails', () => {
    const live = (text: string) => {
      logs.record('log', { job: 'a', worker: 0, offset: printed[0]!.length, text });
      printed = [Buffer.concat([printed[0]!, Buffer.from(text)])];
    };
    let away: boolean;

    beforeEach(() => {
      away = true;
      logs = new Logs('a', (query) => (away ? Promise.reject(new Error('away')) : read(query)));
      printed = [Buffer.from('one\ntwo\n')];
    });

    it('holds back no live output, and says so until it is tried again', async () => {
      logs.fresh();
      live('three\n');
      await settle();
      live('four\n');
      expect(lines(0)).toEqual(['three\n', 'four\n']);
      expect(logs.tail.error.value?.message).toContain('away');
      away = false;
      logs.fresh();
      live('five\n');
      await settle();
      expect(logs.tail.error.value).toBeNull();
      await logs.readPast();
      expect(lines(0)).toEqual(['one\n', 'two\n', 'three\n', 'four\n', 'five\n']);
    });

    it('leaves live output to the read that has overtaken it', async () => {
      logs.fresh();
      away = false;
      logs.fresh();
      live('three\n');
      await settle();
      live('four\n');
      expect(lines(0)).toEqual(['one\n', 'two\n', 'three\n', 'four\n']);
    });
  });

  it('joins live output to the past of a worker that was not read', async () => {
    printed = Array.from({ length: 40 }, (_, worker) => output(worker, 10));
    logs.fresh();
    await settle();
    const { length } = printed[35]!;
    logs.record('log', { job: 'a', worker: 35, offset: length, text: 'live\n' });
    expect(logs.hidden().find(({ worker }) => worker === 35)).toEqual({ worker: 35, bytes: length });
    logs.show(35);
    await logs.readPast();
    expect(lines(35)).toEqual([...Array.from({ length: 10 }, (_, at) => line(35, at)), 'live\n']);
  });
});
