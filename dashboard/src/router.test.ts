import { describe, expect, it, vi } from 'vitest';

vi.stubGlobal('location', { pathname: '/', search: '' });
const { match } = await import('./router');

describe('match', () => {
  it('gives the named parts, decoded', () => {
    expect(match('/jobs/:id', '/jobs/a%2Fb')).toEqual({ id: 'a/b' });
    expect(match('/jobs', '/jobs')).toEqual({});
  });

  it('refuses other paths, empty parts and broken escapes', () => {
    expect(match('/jobs/:id', '/jobs')).toBeNull();
    expect(match('/jobs/:id', '/jobs/')).toBeNull();
    expect(match('/jobs/:id', '/nodes/1')).toBeNull();
    expect(match('/jobs/:id', '/jobs/%E0%A4%A')).toBeNull();
  });
});
