import { afterEach, expect, it, vi } from 'vitest';
import { clockSkew, get } from './client';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it("goes by the head's clock where that differs from the browser's, by more than a second and the way", async () => {
  vi.useFakeTimers({ now: 1_000_000_000 });
  const { now } = await import('../state/clock');
  const ask = async (headers: HeadersInit) => {
    vi.stubGlobal('fetch', () => Promise.resolve(new Response('{}', { headers })));
    await get('/api/v1/version');
    return clockSkew;
  };
  const ahead = (milliseconds: number) => ({ Date: new Date(Date.now() + milliseconds).toUTCString() });
  expect(await ask(ahead(1000))).toBe(0);
  expect(await ask(ahead(-180_000))).toBe(-180_000);
  await vi.advanceTimersByTimeAsync(1000);
  expect(now.value).toBe(Date.now() - 180_000);
  expect(await ask(ahead(-181_000)), 'ages do not jump to and fro').toBe(-180_000);
  expect(await ask({}), 'an answer that does not tell').toBe(-180_000);
  expect(await ask(ahead(0))).toBe(0);
});
