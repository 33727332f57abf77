import { signal } from '@preact/signals';
import { clockSkew } from '../api/client';

/** Now by the head's clock, in milliseconds since the epoch, once a second: what ages on screen are counted from. */
export const now = signal(Date.now());

setInterval(() => {
  now.value = Date.now() + clockSkew;
}, 1000);
