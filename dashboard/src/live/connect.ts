import type { Port } from './hub';

/** Some browsers, most of them on phones, have no shared workers, and policies can forbid them. */
let shared = typeof SharedWorker !== 'undefined';
/** A worker whose script did not come is tried again after this: the head may be away just now. */
export const workerRetryMilliseconds = 2000;

/**
 * The way to the browser's one hub. It runs in a worker that all tabs share: shared workers need no secure context, as
 * locks do, and a tab that is frozen in the background cannot hold up the others, as an elected leader could. Where
 * there are none each tab has a worker of its own; since a hidden tab holds no stream, that is one stream per window.
 * `failed`: see LinkOptions.
 */
export function connectHub(failed: (pause: number) => void): Port {
  if (shared) {
    try {
      const worker = new SharedWorker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'weir' });
      worker.onerror = () => {
        shared = false;
        failed(0);
      };
      return worker.port;
    } catch {
      shared = false;
    }
  }
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'weir' });
  worker.onerror = () => {
    worker.terminate(); // after an error in its script it would still hold a stream
    failed(workerRetryMilliseconds);
  };
  return worker;
}
