// Writes NAME.gz beside every text file of dist/, so that the head serves compressed bytes without compressing.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const dist = new URL('../dist/', import.meta.url).pathname;
for (const entry of readdirSync(dist, { recursive: true })) {
  if (!/\.(js|css|html|svg)$/.test(entry)) continue;
  const path = join(dist, entry);
  writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
}
