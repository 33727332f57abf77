import { get } from '../api/client';
import type { Event, EventList } from '../api/types';

/** The newest events behind a path, newest first, at most `count` (<= 1000). */
export async function readEvents(path: string, count: number, signal: AbortSignal): Promise<Event[]> {
  return (await get<EventList>(path, { order: 'newest', limit: count }, signal)).events;
}

/** Whether a message says "node NAME", as the head's messages do. What only begins like the name is another node. */
export function namesNode(message: string, node: string): boolean {
  const [, ...rests] = message.split(`node ${node}`);
  return rests.some((rest) => /^($|[\s,;:)])/.test(rest));
}
