import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Pace } from './pace';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('acts at once, then once for all that was asked meanwhile, after a pause', async () => {
  const ends: (() => void)[] = [];
  const pace = new Pace(() => new Promise<void>((resolve) => ends.push(resolve)));
  pace.ask();
  expect(ends).toHaveLength(1);
  for (let cause = 0; cause < 1000; ++cause) pace.ask();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ends, 'never two at a time, however long one takes').toHaveLength(1);
  ends[0]!();
  await vi.advanceTimersByTimeAsync(999);
  expect(ends).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(ends).toHaveLength(2);
  ends[1]!();
  await vi.advanceTimersByTimeAsync(500);
  pace.ask();
  await vi.advanceTimersByTimeAsync(500);
  expect(ends, 'asked in the pause').toHaveLength(3);
  ends[2]!();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ends).toHaveLength(3);
  pace.ask();
  expect(ends).toHaveLength(4);
});
