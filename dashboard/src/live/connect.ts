import type { Port } from './hub';

/** Some browsers, most of them on phones, have no shared workers, and policies can forbid them. */
let shared = typeof SharedWorker !== 'undefined';

/**
 * The way to the browser's one hub. It runs in a worker that all tabs share: shared workers need no secure context, as
 * locks do, and a tab that is frozen in the background cannot hold up the others, as an elected leader could. Where
 * there are none each tab has a worker of its own; since a hidden tab holds no stream, that is one stream per window.
 */
export function connectHub(failed: () => void): Port {
  if (shared) {
    try {
      const worker = new SharedWorker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'weir' });
      worker.onerror = () => {
        shared = false;
        failed();
      };
      return worker.port;
    } catch {
      shared = false;
    }
  }
  return new Worker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'weir' });
}
