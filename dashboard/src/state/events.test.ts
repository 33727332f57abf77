import { afterEach, expect, it, vi } from 'vitest';
import { namesNode, readEvents } from './events';

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

it('knows whether a message names the node of its event', () => {
  expect(namesNode('rank 2 on node n1 was started', 'n1')).toBe(true);
  expect(namesNode('node n1 joined', 'n1')).toBe(true);
  expect(namesNode('worker 2 could not be started on node n1: no such file', 'n1')).toBe(true);
  expect(namesNode('node n1 was lost (node n2 says so)', 'n2')).toBe(true);
  expect(namesNode('nothing more is placed on node n1', 'n1')).toBe(true);
  expect(namesNode('worker 2 was started', 'worker')).toBe(false);
  expect(namesNode('step 12 is done', '1')).toBe(false);
  expect(namesNode('node n12 joined', 'n1')).toBe(false);
  expect(namesNode('node n1.b joined', 'n1')).toBe(false);
});
