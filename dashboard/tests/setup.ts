import { webcrypto } from 'node:crypto';

// Node 18, which Debian 12 has, keeps what browsers call `crypto` in a module only.
if (!('crypto' in globalThis)) Object.defineProperty(globalThis, 'crypto', { value: webcrypto });
