import { signal } from '@preact/signals';

/** Now, in milliseconds since the epoch, once a second: what ages on screen are counted from. */
export const now = signal(Date.now());

setInterval(() => {
  now.value = Date.now();
}, 1000);
