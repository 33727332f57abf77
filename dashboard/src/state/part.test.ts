import { afterEach, describe, expect, it, vi } from 'vitest';
import { Outdated, Part } from './part';

describe('Part', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('tells an upgraded head from one that is away, and comes when that is back', async () => {
    let there = false;
    const part = new Part(() => (there ? Promise.resolve('code') : Promise.reject(new TypeError('not fetched'))));
    vi.stubGlobal('fetch', () => Promise.resolve(new Response('{"title": "away"}', { status: 500 })));
    await part.fetch();
    expect(part.error.value?.message).toBe('away');
    vi.stubGlobal('fetch', () => Promise.resolve(new Response('{"version": "0.2.0"}')));
    await part.fetch();
    expect(part.error.value).toBeInstanceOf(Outdated);
    there = true;
    await part.fetch();
    expect([part.data.value, part.error.value]).toEqual(['code', null]);
  });
});
