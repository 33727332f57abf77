import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

interface Lock {
  packages: Record<string, { version?: string; integrity?: string; resolved?: string }>;
}

it('the lockfile pins every package by version and hash and names no host', () => {
  const lock = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8')) as Lock;
  const packages = Object.entries(lock.packages).filter(([path]) => path !== '');
  expect(packages.length).toBeGreaterThan(50);
  for (const [path, { version, integrity, resolved }] of packages) {
    expect([path, typeof version, typeof integrity, resolved]).toEqual([path, 'string', 'string', undefined]);
  }
});
