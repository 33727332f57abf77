import type { Page } from '@playwright/test';
import { chart, legend } from './drawn';
import { expect, logIn, test } from './fixtures';
import { valueOf } from './mock/data';
import type { MockHead } from './mock/head';

// A trace keeps the whole page at each step of a test: that time is the tabs' own here.
test.use({ trace: 'off' });

/** More tabs than the six connections that a browser has for one address over HTTP/1.1. */
const jobs = Array.from({ length: 8 }, (_, index) => `job-${String(10_000 - 3 - index).padStart(5, '0')}`);
const steps = 470;

test.beforeEach(({ head }) => {
  for (const id of jobs) Object.assign(head.job(id), { state: 'RUNNING', phase: 'training', ended_at: null });
});

async function open(page: Page, address: string, count: number): Promise<Page[]> {
  await logIn(page, address);
  const tabs = [page];
  while (tabs.length < count) tabs.push(await page.context().newPage());
  for (const [index, tab] of tabs.entries()) {
    await tab.goto(`${address}/jobs/${jobs[index]}`);
    await expect(chart(tab, 'Loss').locator('canvas')).toBeVisible();
    await expect(tab.getByText('Live', { exact: true })).toBeVisible();
  }
  return tabs;
}

/** A loss that no other job has. */
function measure(head: MockHead, index: number, step: number): number {
  const value = 1000 * (index + 1) + step / 7;
  const point = ['loss', null, step, step * 0.21, step * 15_900, value];
  head.publish('metrics', [`job:${jobs[index]}`], { job: jobs[index], restarts: 0, points: [point] });
  return value;
}

async function expectAllLive(head: MockHead, tabs: readonly Page[], step: number, from = 0): Promise<void> {
  // What is published before a stream carries a topic is told to nobody who follows it; each further tab has a new
  // stream in place of the one before.
  const followed = tabs.map((_, index) => `job:${jobs[from + index]}`);
  await expect.poll(() => head.follows(...followed), 'one stream for all of these tabs').toBe(true);
  for (const [index, tab] of tabs.entries()) {
    const value = measure(head, from + index, step);
    await expect.poll(() => legend(tab, 'Loss'), `tab ${from + index}`).toMatchObject({ training: value });
  }
}

const topics = () => jobs.map((id) => `job:${id}`);

/** Asks the head for something with each tab: what the tab has asked for before has come there by then. */
function ask(tabs: readonly Page[]): Promise<number[]> {
  return Promise.all(tabs.map((tab) => tab.evaluate(async () => (await fetch('/api/v1/nodes')).status)));
}

function look(tab: Page, state: 'hidden' | 'visible'): Promise<void> {
  return tab.evaluate((to) => {
    Object.defineProperty(document, 'visibilityState', { value: to, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, state);
}

test('eight tabs: each is live, over one stream, and everything else answers', async ({ page, address, head }) => {
  const tabs = await open(page, address, 8);
  await expect.poll(() => topics().every((topic) => head.follows(topic))).toBe(true);
  await expect.poll(() => head.followers).toBe(1);
  await expectAllLive(head, tabs, steps + 1);
  expect(await ask(tabs)).toEqual(tabs.map(() => 200));

  // The tab that began the stream goes: the others keep it, nothing is read again.
  const reads = head.requests.filter((request) => request.includes('/metrics')).length;
  await tabs[0]!.close();
  await expectAllLive(head, tabs.slice(1), steps + 2, 1);
  await expect.poll(() => head.followers).toBe(1);
  expect(head.requests.filter((request) => request.includes('/metrics'))).toHaveLength(reads);
  await expect.poll(() => head.follows(`job:${jobs[0]}`), 'what nobody looks at is let go of').toBe(false);
  await expectAllLive(head, tabs.slice(1), steps + 3, 1);
});

test('tabs: a broken connection goes on for all of them, without gap or repeat', async ({ page, address, head }) => {
  const tabs = await open(page, address, 2);
  await expectAllLive(head, tabs, steps + 1);
  await ask(tabs); // what they have asked for before has come, too
  const reads = head.requests.filter((request) => request.includes('/metrics')).length;
  head.cut();
  for (const tab of tabs) await expect(tab.getByText('Disconnected', { exact: true })).toBeVisible();
  const missed = tabs.map((_, index) => [2, 3].map((step) => measure(head, index, steps + step)));
  head.comeBack();
  for (const [index, tab] of tabs.entries()) {
    await expect.poll(() => legend(tab, 'Loss')).toMatchObject({ training: missed[index]![1] });
    await expect(chart(tab, 'Loss').locator('summary')).toContainText(`${steps + 3} points`);
  }
  expect(head.requests.filter((request) => request.includes('/metrics'))).toHaveLength(reads);
});

test('a hidden tab follows nothing and catches up when it is seen', async ({ page, address, head }) => {
  const tabs = await open(page, address, 3);
  const [first, second] = tabs as [Page, Page];
  await expectAllLive(head, tabs, steps + 1);
  await look(second, 'hidden');
  const followed = () => topics().slice(0, 3).map((topic) => head.follows(topic));
  await expect.poll(followed).toEqual([true, false, true]);
  head.job(jobs[1]!).step = steps + 20;
  await look(second, 'visible');
  await expect.poll(() => legend(second, 'Loss')).toMatchObject({ training: valueOf('loss', steps + 20) });
  await expectAllLive(head, [first, second], steps + 21);
  for (const tab of tabs) await look(tab, 'hidden');
  await expect.poll(() => head.followers).toBe(0);
});

test('the session is the browser’s: its end and a login are every tab’s', async ({ page, address, head }) => {
  const tabs = await open(page, address, 2);
  head.expired = true;
  head.cut();
  for (const tab of tabs) await expect(tab.getByRole('textbox', { name: 'Token' })).toBeVisible();
  head.expired = false;
  head.comeBack();
  await tabs[1]!.getByRole('textbox', { name: 'Token' }).fill('mock-token');
  await tabs[1]!.getByRole('button', { name: 'Log in' }).click();
  for (const tab of tabs) await expect(tab.getByText('Live', { exact: true })).toBeVisible();
  await expectAllLive(head, tabs, steps + 1);
  await tabs[0]!.getByRole('button', { name: 'Log out' }).click();
  for (const tab of tabs) await expect(tab.getByRole('textbox', { name: 'Token' })).toBeVisible();
  await expect.poll(() => head.followers).toBe(0);
});

test('shared workers missing: a worker whose script does not come is tried again', async ({ page, address, head }) => {
  await page.addInitScript(() => {
    const here = window as unknown as { SharedWorker?: unknown; scriptIsAway: boolean };
    delete here.SharedWorker;
    here.scriptIsAway = true;
    // A route need not see what a worker begins with.
    window.Worker = class extends Worker {
      constructor(url: string | URL, options?: WorkerOptions) {
        super(here.scriptIsAway ? '/assets/away.js' : url, options);
      }
    };
  });
  await logIn(page, address);
  await page.goto(`${address}/jobs/${jobs[0]}`);
  await expect(page.getByRole('alert')).toContainText('Disconnected from the head');
  await expect(chart(page, 'Loss').locator('canvas'), 'what there is is shown').toBeVisible();
  expect(head.followers).toBe(0);
  await page.evaluate(() => Object.assign(window, { scriptIsAway: false }));
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  await expect(page.getByRole('alert')).toHaveCount(0);
  await expectAllLive(head, [page], steps + 1);
  await expect.poll(() => head.followers).toBe(1);
});

for (const kind of ['missing', 'forbidden'] as const) {
  test(`shared workers ${kind}: the tab has a stream of its own`, async ({ page, address, head }) => {
    await page.addInitScript((how) => {
      if (how === 'missing') delete (window as { SharedWorker?: unknown }).SharedWorker;
      else {
        window.SharedWorker = class {
          port = new MessageChannel().port1;
          constructor() {
            queueMicrotask(() => (this as unknown as { onerror: () => void }).onerror());
          }
        } as unknown as typeof SharedWorker;
      }
    }, kind);
    await logIn(page, address);
    await page.goto(`${address}/jobs/${jobs[0]}`);
    await expect(page.getByText('Live', { exact: true })).toBeVisible();
    await expectAllLive(head, [page], steps + 1);
    await expect.poll(() => head.followers).toBe(1);
  });
}
