import { ApiError, get } from '../api/client';
import type { Version } from '../api/types';
import { Resource } from './resource';

/** The head has no such script any more. */
export class Outdated extends ApiError {
  constructor() {
    super('The head was upgraded: reload this page', 0, null);
  }
}

/**
 * A part of the dashboard whose script is fetched when it is first looked at. Scripts are named after their content, so
 * a head that was upgraded after the page was loaded no longer has those of the page.
 */
export class Part<T> extends Resource<T> {
  constructor(private readonly script: () => Promise<T>) {
    super();
  }

  fetch(): Promise<boolean> {
    return this.load(async (signal) => {
      try {
        return await this.script();
      } catch {
        await get<Version>('/api/v1/version', {}, signal); // a head that is away is another matter
        throw new Outdated();
      }
    });
  }
}
