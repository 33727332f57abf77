import { aliveMilliseconds, Hub, type Port } from './hub';
import type { Source } from './stream';

/** The worker behind connectHub(): one hub over the head's own stream, and a port for every tab. */
const hub = new Hub({
  open: (url) => new EventSource(url) as unknown as Source,
  admitted: async () => (await fetch('/api/v1/version', { signal: AbortSignal.timeout(10_000) })).status !== 401,
  now: () => Date.now(),
});
setInterval(() => hub.expire(), aliveMilliseconds);

if ('onconnect' in globalThis) {
  addEventListener('connect', (event) => {
    for (const port of (event as MessageEvent).ports) hub.connect(port);
  });
} else {
  hub.connect(globalThis as unknown as Port); // a worker of one tab alone is its own port
}
