import type { Page } from '@playwright/test';
import { hostileName } from './mock/data';
import { expect, logIn, picture, test } from './fixtures';

/** What every page shows once it has what it needs. */
const pages = [
  { name: 'overview', path: '/', shows: 'Newest jobs' },
  { name: 'jobs', path: '/jobs', shows: 'sweep-9999' },
  { name: 'job', path: '/jobs/job-run', shows: 'Compression ratio' },
  { name: 'mode', path: '/jobs/job-run?tab=mode', shows: 'Idle share of a step' },
  { name: 'traffic', path: '/jobs/job-run?tab=traffic', shows: 'Who talks to whom' },
  { name: 'logs', path: '/jobs/job-run?tab=logs', shows: 'Download' },
  { name: 'events', path: '/jobs/job-run?tab=events', shows: 'job.submitted' },
  { name: 'checkpoints', path: '/jobs/job-run?tab=checkpoints', shows: 'step-250.safetensors' },
  { name: 'compare', path: '/compare?jobs=job-run,job-fail,job-09999', shows: 'Differences of their specs' },
  { name: 'failed', path: '/jobs/job-fail', shows: 'signal 9' },
  { name: 'nodes', path: '/nodes', shows: 'n3' },
  { name: 'actors', path: '/actors', shows: 'w-3/trainer' },
  { name: 'submit', path: '/submit', shows: 'Spec as JSON' },
];
const screens = [
  { name: 'phone', width: 390, height: 844 },
  { name: 'laptop', width: 1366, height: 768 },
];

/** Opens a page and waits for each part of it: what comes later may be as wide, or a stop of the keyboard. */
async function open(page: Page, address: string, { path, shows }: (typeof pages)[number]): Promise<void> {
  await page.goto(address + path);
  await expect(page.getByText(shows).first()).toBeVisible();
  await expect(page.getByText('Loading', { exact: true })).toHaveCount(0);
}

for (const { name, width, height } of screens) {
  test(`${name}: nothing is wider than the screen, however long a name is`, async ({ page, address, head }) => {
    head.job('job-run').name = 'a-name-without-any-place-to-break-it-'.repeat(3);
    head.job('job-fail').name = `${hostileName} `.repeat(4);
    await page.setViewportSize({ width, height });
    await logIn(page, address);
    for (const one of pages) {
      const { name: of, path } = one;
      await open(page, address, one);
      const wide = () =>
        page.evaluate(() =>
          document.documentElement.scrollWidth <= innerWidth
            ? []
            : [...document.querySelectorAll('body *')]
                .filter((element) => element.getBoundingClientRect().right > innerWidth)
                .slice(0, 5)
                .map((element) => `${element.tagName.toLowerCase()}.${element.className}`),
        );
      await expect.poll(wide, `${path} at ${width} pixels`).toEqual([]);
      if (name === 'phone') await picture(page, `${name}-${of}`); // the wide ones are in the tests of each page
    }
  });
}

test('whoever goes by keyboard sees where they are', async ({ page, address }) => {
  await logIn(page, address);
  for (const one of pages) {
    const { path } = one;
    await open(page, address, one);
    // The page itself writes down each stop, and whether it is seen: asking it after each key takes much longer.
    await page.evaluate(() => {
      const stops: { what: string; visible: boolean }[] = [];
      document.addEventListener('focusin', ({ target }) => {
        const element = target as HTMLElement;
        const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
        const outlined = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1;
        stops.push({
          what: `${element.tagName} ${element.textContent?.slice(0, 30) ?? ''}`,
          visible: outlined || boxShadow !== 'none',
        });
      });
      Object.assign(window, { stops });
    });
    for (let press = 0; press < 25; ++press) await page.keyboard.press('Tab');
    const stops = await page.evaluate(
      () => (window as unknown as { stops: { what: string; visible: boolean }[] }).stops,
    );
    expect(stops.filter(({ visible }) => !visible), `stops on ${path} that nobody sees`).toEqual([]);
    expect(new Set(stops.map(({ what }) => what)).size, `stops on ${path}`).toBeGreaterThan(5);
  }
});
