import { get } from '../api/client';
import type { Event, EventList } from '../api/types';

const pageSize = 1000;
const pagesMax = 20;

/** The newest events behind a path, at most `count`, oldest first: the head lists them from the beginning. */
export async function readEvents(path: string, count: number, signal: AbortSignal): Promise<Event[]> {
  let events: Event[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < pagesMax; ++page) {
    const answer: EventList = await get<EventList>(path, { limit: pageSize, cursor }, signal);
    events = [...events, ...answer.events].slice(-count);
    cursor = answer.next;
    if (cursor === null) break;
  }
  return events;
}
