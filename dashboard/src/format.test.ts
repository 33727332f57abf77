import { describe, expect, it } from 'vitest';
import { ago, bytes, cores, count, elapsed, number, percent, rate, ratio } from './format';
import { seconds, span, time, timeLeft } from './format';

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

  it.each([
    [percent, 0.0005, [0.8925, 0.893, 0.8935], ['89.25 %', '89.30 %', '89.35 %']],
    [percent, 0.2, [0.6, 0.8, 1], ['60 %', '80 %', '100 %']],
    [bytes, 2e7, [0, 9.8e8, 1e9, 1.02e9, 1.24e9], ['0 B', '980 MB', '1.00 GB', '1.02 GB', '1.24 GB']],
    [number, 2.5e-4, [0.41, 0.41025], ['0.41000', '0.41025']],
    [number, 5e-7, [1.2e-5, 1.25e-5], ['1.20e-5', '1.25e-5']],
    [number, 5e7, [1.2e9, 1.25e9], ['1.20e9', '1.25e9']],
    [number, 2500, [5000, 7500], ['5,000', '7,500']],
    [ratio, 0.5, [120, 120.5], ['120.0×', '120.5×']],
    [seconds, 5e-4, [0.1, 0.1005], ['100.0 ms', '100.5 ms']],
    [seconds, 5, [0, 55, 60, 65], ['0 s', '55 s', '1 min 00 s', '1 min 05 s']],
    [seconds, 0.5, [59.5, 60, 65.5], ['59.5 s', '1 min 00.0 s', '1 min 05.5 s']],
    [seconds, 300, [3300, 3600, 3900], ['55 min', '1 h 00 min', '1 h 05 min']],
    [seconds, 600, [4000, 7200, 7800], ['1 h 06 min', '2 h 00 min', '2 h 10 min']],
    [seconds, 3600, [7200, 82_800, 90_000], ['2 h', '23 h', '1 d 01 h']],
    [seconds, 30, [7200, 7230], ['2 h 00 min 00 s', '2 h 00 min 30 s']],
    [seconds, 86_400, [86_400, 172_800], ['1 d', '2 d']],
  ] as const)('writes %o, %f apart, so that %o can be told apart', (write, step, values, texts) =>
    expect(values.map((value) => write(value, step))).toEqual(texts),
  );

  it('tells ages and durations', () => {
    const now = Date.parse('2026-11-21T12:00:00Z');
    expect(ago('2026-11-21T11:59:59Z', now)).toBe('just now');
    expect(ago('2026-11-21T11:59:18Z', now)).toBe('42 s ago');
    expect(ago('2026-11-21T10:01:00Z', now)).toBe('1 h ago');
    expect(ago('2026-11-20T12:00:01Z', now)).toBe('23 h ago');
    expect(ago('2026-11-20T12:00:00Z', now)).toBe(time('2026-11-20T12:00:00Z'));
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
