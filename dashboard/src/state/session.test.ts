import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

describe('logging out', () => {
  /** What the head answers. */
  let answer: () => Promise<Response>;
  let state: typeof import('./session');

  beforeEach(async () => {
    vi.stubGlobal('Worker', function () {
      return { postMessage: () => {} };
    });
    vi.stubGlobal('fetch', () => answer());
    vi.resetModules();
    state = await import('./session');
    state.session.value = 'open';
  });
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('ends the session', async () => {
    answer = () => Promise.resolve(new Response(null, { status: 204 }));
    await state.logOut();
    expect([state.session.value, state.logOutFailure.value]).toEqual(['closed', null]);
  });

  it('says why it failed, until it is tried again', async () => {
    answer = () => Promise.reject(new TypeError('Failed to fetch'));
    await state.logOut();
    expect([state.session.value, state.logOutFailure.value]).toEqual(['open', 'The head cannot be reached']);
    answer = () => Promise.resolve(new Response('{"detail": "the store is full"}', { status: 500 }));
    const trying = state.logOut();
    expect(state.logOutFailure.value).toBeNull();
    await trying;
    expect([state.session.value, state.logOutFailure.value]).toEqual(['open', 'the store is full']);
    answer = () => Promise.resolve(new Response('{}'));
    await state.readVersion();
    expect(state.logOutFailure.value, 'another session has begun').toBeNull();
  });

  it('of a session that has ended is no failure', async () => {
    answer = () => Promise.resolve(new Response('{"title": "No session"}', { status: 401 }));
    await state.logOut();
    expect([state.session.value, state.logOutFailure.value]).toEqual(['closed', null]);
  });
});
