import { describe, expect, it } from 'vitest';
import { ago, bytes, cores, count, elapsed, number, percent, rate, ratio, seconds, span, timeLeft } from './format';

describe('format', () => {
  it.each([
    [0, '0'],
    [999, '999'],
    [1000, '1,000'],
    [12_345_678, '12,345,678'],
    [-1234, '-1,234'],
    [null, '–'],
    [NaN, '–'],
  ])('counts %s as %s', (value, text) => expect(count(value)).toBe(text));

  it.each([
    [0, '0'],
    [0.05, '0.05'],
    [1.23456, '1.235'],
    [12_345.6, '12,346'],
    [3.2e-7, '3.2e-7'],
    [2.5e12, '2.5e12'],
    [Infinity, '–'],
  ])('writes the number %s as %s', (value, text) => expect(number(value)).toBe(text));

  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [999_949, '1.0 MB'],
    [12_345_678, '12.3 MB'],
    [123e9, '123 GB'],
    [4e18, '4000 PB'],
    [-1500, '-1.5 kB'],
    [undefined, '–'],
  ])('writes %s bytes as %s', (value, text) => expect(bytes(value)).toBe(text));

  it.each([
    [0, '0 s'],
    [4e-5, '40 µs'],
    [0.0325, '32.5 ms'],
    [0.9999, '1 s'],
    [1.254, '1.25 s'],
    [59.96, '1 min 00 s'],
    [185, '3 min 05 s'],
    [7440, '2 h 04 min'],
    [273_600, '3 d 04 h'],
    [-2, '-2 s'],
  ])('writes %s seconds as %s', (value, text) => expect(seconds(value)).toBe(text));

  it('writes shares and ratios', () => {
    expect(percent(0.89341)).toBe('89.3 %');
    expect(ratio(412.4)).toBe('412×');
    expect(ratio(1.5)).toBe('1.50×');
    expect(percent(null)).toBe('–');
    expect(rate(2500)).toBe('2.5 kB/s');
    expect(rate(undefined)).toBe('–');
  });

  it('tells ages and durations', () => {
    const now = Date.parse('2026-11-21T12:00:00Z');
    expect(ago('2026-11-21T11:59:59Z', now)).toBe('just now');
    expect(ago('2026-11-21T11:59:18Z', now)).toBe('42 s ago');
    expect(ago('2026-11-21T10:01:00Z', now)).toBe('1 h ago');
    expect(ago('2026-11-21T12:00:05Z', now)).toBe('just now'); // the head's clock is ahead of ours
    expect(ago('yesterday', now)).toBe('–');
    expect(span(61_000)).toBe('1 min 01 s');
    expect(elapsed(null, null, now)).toBeNull();
    expect(elapsed('2026-11-21T11:00:00Z', null, now)).toBe(3_600_000);
    expect(elapsed('2026-11-21T11:00:00Z', '2026-11-21T11:00:01Z', now)).toBe(1000);
  });

  it('says what is left only where it is known, and never that it is nothing', () => {
    const since = { step: 1000, at: 500_000 };
    const now = 560_000;
    expect(timeLeft(1100, 1400, since, now)).toBe('about 3 min 00 s left');
    expect(timeLeft(1468, 1469, since, now)).toBe('about 1 s left');
    expect(timeLeft(1469, 1469, since, now)).toBeNull();
    expect(timeLeft(1100, null, since, now)).toBeNull();
    expect(timeLeft(1100, 1400, null, now)).toBeNull();
    expect(timeLeft(1000, 1400, since, now)).toBeNull();
    expect(timeLeft(1001, 1400, since, 500_020), 'one step just after the first look').toBeNull();
  });

  it('writes what was not measured as a dash', () => {
    for (const write of [count, number, bytes, rate, percent, ratio, seconds]) {
      expect([write(null), write(undefined), write(NaN)]).toEqual(['–', '–', '–']);
    }
    expect([cores(null, 1), cores(0, 1), cores(1.86, 2)]).toEqual(['–', '0.0 cores', '1.86 cores']);
  });
});
