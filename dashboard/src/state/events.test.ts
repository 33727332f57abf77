import { afterEach, expect, it, vi } from 'vitest';
import { readEvents } from './events';

afterEach(() => {
  vi.unstubAllGlobals();
});

it('reads the newest events, in one request', async () => {
  const asked: string[] = [];
  vi.stubGlobal('fetch', (path: string) => {
    asked.push(path);
    return Promise.resolve(new Response(JSON.stringify({ events: [{ id: 9 }, { id: 8 }], next: '8' })));
  });
  const events = await readEvents('/api/v1/events', 2, new AbortController().signal);
  expect(events.map(({ id }) => id)).toEqual([9, 8]);
  expect(asked).toEqual(['/api/v1/events?order=newest&limit=2']);
});
