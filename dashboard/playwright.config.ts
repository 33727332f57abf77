import { defineConfig } from '@playwright/test';

/** Debian's chromium, which must neither phone home nor touch anybody's profile. */
const chromium = {
  executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
};

export default defineConfig({
  testDir: 'e2e',
  outputDir: 'test-results',
  // Machines differ in speed: limits are guards against hanging, never measures.
  timeout: 300_000,
  expect: { timeout: 60_000 },
  workers: 1,
  forbidOnly: true,
  reporter: 'list',
  use: {
    browserName: 'chromium',
    launchOptions: chromium,
    viewport: { width: 1360, height: 900 },
    locale: 'en-US',
    timezoneId: 'UTC',
    // Nothing that moves for ever, and no film of it: without a GPU either takes the processor from what is tested.
    contextOptions: { reducedMotion: 'reduce' },
    trace: { mode: 'retain-on-failure', screenshots: false },
  },
});
