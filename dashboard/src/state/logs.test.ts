import { describe, expect, it } from 'vitest';
import { findLines, layout, pieces, visible } from '../components/log_rows';
import { LogBuffer } from './logs';

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
});
