import type { Event } from '../api/types';
import { time } from '../format';
import { namesNode } from '../state/events';
import { Ago } from './ui';

export function EventTable({ events }: { events: readonly Event[] }) {
  return (
    <ol class="events">
      {events.map((event) => (
        <li key={event.id} class={`event event-${event.severity}`}>
          <span class="event-at" title={time(event.at)}>
            <Ago at={event.at} />
          </span>
          <span class="event-what">
            <b>{event.severity === 'info' ? event.kind : `${event.severity}: ${event.kind}`}</b> {event.message}
            {event.node && !namesNode(event.message, event.node) && <span class="faint"> on {event.node}</span>}
          </span>
        </li>
      ))}
    </ol>
  );
}
