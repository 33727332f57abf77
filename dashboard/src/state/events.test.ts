import { afterEach, expect, it, vi } from 'vitest';
import { readEvents } from './events';

afterEach(() => {
  vi.unstubAllGlobals();
});

it('the newest events are at the end of the last page', async () => {
  const asked: (string | null)[] = [];
  vi.stubGlobal('fetch', (path: string) => {
    const cursor = new URL(path, 'http://head').searchParams.get('cursor');
    asked.push(cursor);
    const page = Number(cursor ?? 0);
    const events = [1, 2, 3].map((place) => ({ id: page * 10 + place }));
    return Promise.resolve(new Response(JSON.stringify({ events, next: page < 2 ? String(page + 1) : null })));
  });
  const events = await readEvents('/api/v1/events', 4, new AbortController().signal);
  expect(events.map(({ id }) => id)).toEqual([13, 21, 22, 23]);
  expect(asked).toEqual([null, '1', '2']);
});
