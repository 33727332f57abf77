import { defineConfig } from 'vitest/config';

const head = process.env['WEIR_ADDRESS'] ?? 'http://127.0.0.1:8265';

const passOn = { target: head, changeOrigin: true, headers: { origin: head } };

export default defineConfig({
  build: {
    target: 'es2022',
    // The content security policy allows no inline anything, so nothing is inlined as a data: URL either.
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
  },
  // `npm run dev` serves the sources and passes everything else on to a running head, which takes requests of its own
  // origin only.
  server: { proxy: { '/api': passOn, '/login': passOn, '/openapi.json': passOn } },
  test: {
    include: ['src/**/*.test.ts', 'tests/**/*.test.ts'],
    setupFiles: ['tests/setup.ts'],
    environment: 'node',
    testTimeout: 60_000, // a guard against hanging, never a measure
  },
});
