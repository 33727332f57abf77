import { signal } from '@preact/signals';
import { ApiError, get, onUnauthorized, request } from '../api/client';
import type { Version } from '../api/types';
import { connectHub } from '../live/connect';
import { aliveMilliseconds } from '../live/hub';
import { LiveLink } from '../live/link';

/** Whether the head knows us. `unknown` until it has answered once. */
export const session = signal<'unknown' | 'open' | 'closed'>('unknown');

/** What runs on the other side; null until known. */
export const version = signal<Version | null>(null);

/** Why this tab could not log out when it was last asked to; null if there is nothing to tell. */
export const logOutFailure = signal<string | null>(null);

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
  logOutFailure.value = null; // was of the session before
}

/** Trades the head's token for a session cookie, for all tabs. Throws ApiError. */
export async function logIn(token: string): Promise<void> {
  await request('POST', '/api/v1/session', { headers: { Authorization: `Bearer ${token}` } });
  await readVersion();
  live.session(true);
}

/** Ends the session, for all tabs. If that fails, logOutFailure says why. */
export async function logOut(): Promise<void> {
  logOutFailure.value = null;
  try {
    await request('DELETE', '/api/v1/session');
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return; // it had ended, which shows by itself
    logOutFailure.value = error instanceof Error ? error.message : String(error);
    return;
  }
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
