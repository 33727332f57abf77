import { signal } from '@preact/signals';
import { get, onUnauthorized, request } from '../api/client';
import type { Version } from '../api/types';
import { connectHub } from '../live/connect';
import { aliveMilliseconds } from '../live/hub';
import { LiveLink } from '../live/link';

/** Whether the head knows us. `unknown` until it has answered once. */
export const session = signal<'unknown' | 'open' | 'closed'>('unknown');

/** What runs on the other side; null until known. */
export const version = signal<Version | null>(null);

/** The live records of this tab's pages. */
export const live = new LiveLink({
  connect: connectHub,
  session: (open) => {
    if (!open) session.value = 'closed';
    else if (session.value !== 'open') askWhoWeAre();
  },
});

onUnauthorized(() => {
  session.value = 'closed';
});

export async function readVersion(): Promise<void> {
  version.value = await get<Version>('/api/v1/version');
  session.value = 'open';
}

/** Trades the head's token for a session cookie, for all tabs. Throws ApiError. */
export async function logIn(token: string): Promise<void> {
  await request('POST', '/api/v1/session', { headers: { Authorization: `Bearer ${token}` } });
  await readVersion();
  live.session(true);
}

export async function logOut(): Promise<void> {
  await request('DELETE', '/api/v1/session');
  session.value = 'closed';
  live.session(false);
}

/** Hidden tabs follow nothing. To be called once, at the start. */
export function startLive(): void {
  const look = () => {
    if (document.visibilityState === 'hidden') return live.rest();
    live.resume();
    // Somebody may have logged in with another tab meanwhile.
    if (session.value === 'closed') askWhoWeAre();
  };
  document.addEventListener('visibilitychange', look);
  addEventListener('pageshow', look);
  addEventListener('pagehide', () => live.rest());
  setInterval(() => live.alive(), aliveMilliseconds);
  look();
}

function askWhoWeAre(): void {
  readVersion().catch(() => {}); // a 401 shows the login page; any other failure shows on the page itself
}
