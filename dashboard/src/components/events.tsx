import type { Event } from '../api/types';
import { time } from '../format';
import { Ago } from './ui';

export function EventTable({ events, links }: { events: readonly Event[]; links?: boolean }) {
  return (
    <ol class="events">
      {events.map((event) => (
        <li key={event.id} class={`event event-${event.severity}`}>
          <span class="event-at" title={time(event.at)}>
            <Ago at={event.at} />
          </span>
          <span class="event-what">
            <b>{event.severity === 'info' ? event.kind : `${event.severity}: ${event.kind}`}</b> {event.message}
            {links && event.job && (
              <>
                {' '}
                <a href={`/jobs/${encodeURIComponent(event.job)}`}>job</a>
              </>
            )}
            {!links && event.node && <span class="faint"> on {event.node}</span>}
          </span>
        </li>
      ))}
    </ol>
  );
}
