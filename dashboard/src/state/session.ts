import { signal } from '@preact/signals';
import { get, onUnauthorized, request } from '../api/client';
import { LiveStream, type Source } from '../api/live';
import type { Version } from '../api/types';

/** Whether the head knows us. `unknown` until it has answered once. */
export const session = signal<'unknown' | 'open' | 'closed'>('unknown');

/** What runs on the other side; null until known. */
export const version = signal<Version | null>(null);

/** The tab's live records. */
export const live = new LiveStream({
  open: (url) => new EventSource(url) as unknown as Source,
  probe: () => readVersion(),
  now: () => Date.now(),
});

onUnauthorized(() => {
  session.value = 'closed';
  live.stop();
});

export async function readVersion(): Promise<void> {
  version.value = await get<Version>('/api/v1/version');
  session.value = 'open';
}

/** Trades the head's token for a session cookie. Throws ApiError. */
export async function logIn(token: string): Promise<void> {
  await request('POST', '/api/v1/session', { headers: { Authorization: `Bearer ${token}` } });
  await readVersion();
  live.restart();
}

export async function logOut(): Promise<void> {
  await request('DELETE', '/api/v1/session');
  live.stop();
  session.value = 'closed';
}
