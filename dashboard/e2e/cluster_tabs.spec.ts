import type { Page } from '@playwright/test';
import type { Job, Metrics } from '../src/api/types';
import { table, type Point } from './drawn';
import { expect, test } from './fixtures';
import { Weir } from './weir';

const count = 8;
/** As many jobs run at a time, so that they leave the machine to the browser; the others wait. */
const running = 2;
const spec = (index: number) => ({
  name: `tab ${index}`,
  model: { name: 'lenet' },
  // Made up on the spot, and hard; few examples to be tested on, since an evaluation holds up the steps.
  dataset: { name: 'synthetic', params: { noise: 0.9, test_examples: 256 } },
  training: { epochs: 10_000, batch_size: 64, seed: index },
  resources: { workers: 1 },
});

// A trace keeps the whole page at each step of a test: that time is the tabs' own here.
test.use({ trace: 'off' });

/** More tabs than the six connections that a browser has for one address, over a real head. */
test.describe('eight tabs on eight jobs of a real cluster', () => {
  test.skip(Weir.missing() !== null, Weir.missing() ?? '');
  let weir: Weir;
  const jobs: Job[] = [];

  test.beforeAll(async () => {
    weir = await Weir.start(running / 2);
    for (let index = 0; index < count; ++index) {
      jobs.push(await weir.call<Job>('POST', '/api/v1/jobs', spec(index)));
    }
  });
  test.afterAll(async () => {
    await weir?.stop();
  });

  /** The stream connections that the head has open. */
  const streams = async () => {
    const response = await fetch(`${weir.address}/metrics`, { headers: { Authorization: `Bearer ${weir.token}` } });
    return Number(/^weir_http_streams (\d+)$/m.exec(await response.text())?.[1]);
  };
  /** The losses that the head has committed between two steps. */
  const committed = async ({ id }: Job, from: number, to: number) => {
    const path = `/api/v1/jobs/${id}/metrics?name=loss&worker=job&points=5000&from=${from}&to=${to}`;
    return ((await weir.call<Metrics>('GET', path)).series[0]?.points ?? []) as Point[];
  };
  /** Waits until the tab has drawn a step that was not even committed when this was called, and compares its value. */
  const expectLive = async (tab: Page, job: Job) => {
    await tab.bringToFront(); // browsers give little of the processor to the others
    await expect.poll(() => committed(job, 0, 1e9), job.name).not.toEqual([]);
    const { step: before } = await weir.call<Job>('GET', `/api/v1/jobs/${job.id}`);
    const newest = async () => (await table(tab, 'Loss'))['training']!.at(-1)!;
    await expect.poll(async () => (await newest())[0], job.name).toBeGreaterThan(before);
    const [step, , , loss] = await newest();
    expect((await committed(job, step - 0.5, step + 0.5)).map(([x, , , last]) => [x, last])).toEqual([[step, loss]]);
  };

  test('each is live over one stream, which outlives the tab that began it', async ({ page }) => {
    await page.goto(await weir.link());
    const tabs = [page];
    while (tabs.length < count) tabs.push(await page.context().newPage());
    for (const [index, tab] of tabs.entries()) {
      await tab.goto(`${weir.address}/jobs/${jobs[index]!.id}`);
      await expect(tab.getByText('Live', { exact: true })).toBeVisible();
    }
    for (let index = 0; index < running; ++index) await expectLive(tabs[index]!, jobs[index]!);
    await expect.poll(streams).toBe(1);
    const ask = (tab: Page) => tab.evaluate(async () => (await fetch('/api/v1/nodes')).status);
    expect(await Promise.all(tabs.map(ask))).toEqual(tabs.map(() => 200));

    await tabs[0]!.close();
    await expectLive(tabs[1]!, jobs[1]!);
    for (const [index, tab] of tabs.entries()) {
      if (index === 0) continue;
      await expect(tab.locator('h1 .badge')).toContainText(/PENDING|RUNNING/);
      await weir.call('POST', `/api/v1/jobs/${jobs[index]!.id}/stop`);
      await expect(tab.locator('h1 .badge')).toHaveText('STOPPED');
    }
    await expect.poll(streams).toBe(1);
  });
});
