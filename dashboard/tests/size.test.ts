import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const dist = new URL('../dist/', import.meta.url).pathname;
/** What is fetched before anything is shown, and everything: charts, traffic, comparisons, the form come later. */
const firstBytesMax = 35_000;
const scriptBytesMax = 88_000;

const files = readdirSync(dist, { recursive: true }).map(String);

describe('the built dashboard', () => {
  it('is small enough for a slow line', () => {
    const scripts = files.filter((name) => name.endsWith('.js.gz'));
    expect(scripts).not.toHaveLength(0);
    const bytes = (names: string[]) => names.reduce((sum, name) => sum + statSync(join(dist, name)).size, 0);
    const html = readFileSync(join(dist, 'index.html'), 'utf8');
    const first = scripts.filter((name) => html.includes(name.replace(/\.gz$/, '')));
    expect(first).toHaveLength(1);
    expect(bytes(first)).toBeLessThanOrEqual(firstBytesMax);
    expect(bytes(scripts)).toBeLessThanOrEqual(scriptBytesMax);
  });

  it('has nothing inline that the content security policy would refuse', () => {
    const html = readFileSync(join(dist, 'index.html'), 'utf8');
    expect(html).not.toMatch(/<style|style=|\son[a-z]+=|<script(?![^>]*\ssrc=)/);
  });

  it('asks nobody but the head for anything', () => {
    for (const name of files.filter((file) => /\.(js|css|html)$/.test(file))) {
      const addresses = readFileSync(join(dist, name), 'utf8').match(/https?:\/\/[^"'`\s)]+/g) ?? [];
      // Names of XML namespaces are not fetched.
      expect(addresses.filter((address) => !address.startsWith('http://www.w3.org/'))).toEqual([]);
    }
  });
});
