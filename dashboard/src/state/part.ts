import { ApiError } from '../api/client';
import { Resource } from './resource';

/**
 * A part of the dashboard whose script is fetched when it is first looked at. Where that fails, the head was away for a
 * moment, or it was upgraded after the page was loaded: scripts are named after their content, and it no longer has
 * those of the page. A browser may give the same failure to every later try, for as long as the page lives.
 */
export class Part<T> extends Resource<T> {
  constructor(private readonly script: () => Promise<T>) {
    super();
  }

  fetch(): Promise<boolean> {
    return this.load(() =>
      this.script().catch(() => {
        throw new ApiError('This part of the page could not be loaded: reload the page', 0, null);
      }),
    );
  }
}
