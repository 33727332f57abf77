import { describe, expect, it } from 'vitest';
import { Part } from './part';

describe('Part', () => {
  it('says what to do when its script could not be fetched, and comes where a browser tries again', async () => {
    let there = false;
    const part = new Part(() => (there ? Promise.resolve('code') : Promise.reject(new TypeError('not fetched'))));
    await part.fetch();
    expect(part.error.value?.message).toBe('This part of the page could not be loaded: reload the page');
    there = true;
    await part.fetch();
    expect([part.data.value, part.error.value]).toEqual(['code', null]);
  });
});
