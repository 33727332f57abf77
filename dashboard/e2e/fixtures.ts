import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test as base, expect, type Page } from '@playwright/test';
import { MockHead } from './mock/head';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** Where pictures of the pages go; null where nobody asked for them, since each takes seconds of a busy machine. */
const pictures = process.env['WEIR_E2E_PICTURES'] ? new URL('screenshots-output/', import.meta.url).pathname : null;
if (pictures !== null) mkdirSync(pictures, { recursive: true });

/** What no page may ever do, collected while a test runs. */
interface Watch {
  complaints: string[];
}

export const test = base.extend<{ head: MockHead; address: string; watch: Watch }>({
  head: async ({}, use) => {
    const head = new MockHead();
    await use(head);
    await head.stop();
  },
  address: async ({ head }, use) => {
    await use(await head.start());
  },
  /**
   * Every test fails on a broken content security policy, a script error, a dialog or a request to anyone else, in
   * whichever of its tabs.
   */
  watch: [
    async ({ context }, use) => {
      const complaints: string[] = [];
      context.on('console', (message) => {
        if (/content security policy|refused to/i.test(message.text())) complaints.push(message.text());
      });
      context.on('weberror', (error) => complaints.push(String(error.error())));
      context.on('dialog', (dialog) => {
        complaints.push(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
      });
      context.on('request', (request) => {
        const url = request.url();
        if (/^(data|blob):/.test(url) || /^http:\/\/(127\.0\.0\.1|localhost):\d+$/.test(new URL(url).origin)) return;
        complaints.push(`request: ${url}`);
      });
      await use({ complaints });
      expect(complaints).toEqual([]);
    },
    { auto: true },
  ],
});

/** Opens the dashboard as the printed link does. */
export async function openLink(page: Page, address: string): Promise<void> {
  await page.goto(`${address}/login?code=once`);
}

/** Gives the browser the session that the printed link gives, and opens nothing: each test has a page of its own. */
export async function logIn(page: Page, address: string): Promise<void> {
  await page.context().addCookies([{ name: 'weir_session', value: 'yes', url: address, httpOnly: true }]);
}

/** Every rule of these standards that a program can check. */
const standards = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
/** The rules among them that look at colours: all that a theme changes. */
const rulesOfColours = ['color-contrast', 'link-in-text-block'];

/** Nothing on the page that people with other senses or hands cannot use, by these rules or standards. */
export async function expectAccessible(page: Page, rules = standards): Promise<void> {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe);
  const violations = await page.evaluate(async (runOnly) => {
    const { axe } = window as unknown as { axe: { run: (context: unknown, options: unknown) => Promise<AxeResult> } };
    const result = await axe.run(document, { runOnly });
    return result.violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 4)
          .map(({ target, failureSummary }) => `${target.join(' ')} ${failureSummary}`)
          .join(' | ')}`,
    );
  }, rules);
  expect(violations).toEqual([]);
}

interface AxeResult {
  violations: { id: string; nodes: { target: string[]; failureSummary: string }[] }[];
}

/**
 * Shows the page in both themes and checks each for accessibility, of the dark one what its colours change. Leaves a
 * picture of each where they are asked for.
 */
export async function picture(page: Page, name: string): Promise<void> {
  for (const theme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await expect(page.locator('html')).toHaveAttribute('data-theme', theme);
    // Charts are drawn a moment after the page: none may be left of the other theme.
    await expect(page.locator(`.chart-plot[data-drawn]:not([data-drawn~="${theme}"])`)).toHaveCount(0);
    await expectAccessible(page, theme === 'light' ? standards : rulesOfColours);
    if (pictures !== null) await page.screenshot({ path: `${pictures}${name}-${theme}.png`, fullPage: true });
  }
  await page.emulateMedia({ colorScheme: null });
}

export { expect };
