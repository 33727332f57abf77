import type { Page } from '@playwright/test';
import type { Job, Metrics } from '../src/api/types';
import { chart, fold, lines, table, type Point } from './drawn';
import { expect, test } from './fixtures';
import { Weir } from './weir';

/** So many steps that a series thinned out by the length of the job would have nothing to draw for minutes. */
const longJob = {
  name: 'long',
  model: { name: 'lenet' },
  // Made up on the spot, and hard; few examples to be tested on, since an evaluation holds up the steps.
  dataset: { name: 'synthetic', params: { noise: 0.9, test_examples: 256 } },
  training: { epochs: 10_000, batch_size: 64 },
  compression: { name: 'dgc' },
  resources: { workers: 2 },
};
const titles = ['Loss', 'Throughput, samples/s', 'Traffic, cumulative', 'Time per step, by phase'];

const axes = { Time: 'wall', Bytes: 'bytes', Step: 'step' };

// A trace keeps the whole page at each step of a test: that time is the charts' own here.
test.use({ trace: 'off' });

/** What a chart draws, newest points, as table() gives it; afterwards its table is closed again. */
async function drawn(page: Page, title: string): Promise<Record<string, Point[]>> {
  const columns = await table(page, title);
  await fold(page, title);
  return columns;
}

/** What the charts of a job draw while a real cluster trains it. */
test.describe('charts of a running job', () => {
  test.skip(Weir.missing() !== null, Weir.missing() ?? '');
  let weir: Weir;
  let job: Job;

  test.beforeAll(async () => {
    weir = await Weir.start();
    job = await weir.call<Job>('POST', '/api/v1/jobs', longJob);
  });
  test.afterAll(async () => {
    await weir?.stop();
  });

  /** The newest x of what a chart draws. */
  const newest = async (page: Page, title: string) =>
    Math.max(...Object.values(await drawn(page, title)).map((points) => points.at(-1)?.[0] ?? -Infinity));
  /** The steps at which the head has a loss of the whole job. */
  const steps = async (query: string) => {
    const path = `/api/v1/jobs/${job.id}/metrics?name=loss&worker=job&points=5000&${query}`;
    return ((await weir.call<Metrics>('GET', path)).series[0]?.points ?? []).map(([x]) => x);
  };

  test('gain points as they come, on every axis, and a reload changes nothing about them', async ({ page }) => {
    await page.goto(await weir.link());
    await page.goto(`${weir.address}/jobs/${job.id}`);
    await expect(page.locator('h1 .badge')).toContainText('training');
    await expect
      .poll(() => steps('to=20'), 'each of the first steps has its points')
      .toEqual(Array.from({ length: 20 }, (_, i) => i + 1));

    let reads = 0;
    page.on('request', (request) => (reads += request.url().includes('/metrics?') ? 1 : 0));
    for (const [label, axis] of Object.entries(axes)) {
      await page.getByRole('button', { name: label, exact: true }).click();
      const before = new Map<string, number>();
      for (const title of titles) {
        // Until then it is the chart of the axis before.
        await expect(chart(page, title).locator(`[data-drawn^="${axis} "]`)).toBeVisible();
        before.set(title, await newest(page, title));
      }
      const still = async () => {
        for (const [title, x] of before) if ((await newest(page, title)) > x) before.delete(title);
        return [...before.keys()];
      };
      await expect.poll(still, `charts by ${label} that gain no point`).toEqual([]);
    }
    expect(reads, 'one history per axis; the rest came live').toBe(3);

    // Evaluations are rarer than steps: this chart has something to draw, too.
    await expect.poll(() => newest(page, 'Test accuracy')).toBeGreaterThan(0);
    const answer = page.waitForResponse((response) => response.url().includes('/metrics?'));
    await page.reload();
    const read = (await (await answer).json()) as Metrics;
    const begun = read.series.find(({ name }) => name === 'loss')!.points;
    await expect.poll(() => newest(page, 'Loss')).toBeGreaterThan(begun.at(-1)![0]! + 20);
    await weir.call('POST', `/api/v1/jobs/${job.id}/stop`);
    await expect(page.locator('h1 .badge')).toHaveText('STOPPED');

    // What was read and what came live, in one line: nothing missing between them, nothing twice, each value as the
    // head has it. A series may have begun after the read.
    const whole: Metrics = { ...read, series: [] };
    for (const name of Object.values(lines).flatMap((labels) => Object.values(labels))) {
      const past = read.series.find((series) => series.name === name)?.points ?? [];
      const end = past.at(-1)?.[0] ?? 0;
      const path = `/api/v1/jobs/${job.id}/metrics?name=${name}&worker=job&points=5000&from=${end + 0.5}`;
      const news = (await weir.call<Metrics>('GET', path)).series.find((series) => series.name === name)?.points ?? [];
      whole.series.push({ name, worker: null, points: [...past, ...news] });
    }
    await expectDrawn(page, whole);

    // An axis that is shown after the end is read as a whole.
    for (const axis of ['Time', 'Bytes']) {
      const history = page.waitForResponse((response) => response.url().includes('/metrics?'));
      await page.getByRole('button', { name: axis, exact: true }).click();
      await expectDrawn(page, (await (await history).json()) as Metrics);
    }
  });
});

/** Every line of every chart has the values of its own series, exactly. */
async function expectDrawn(page: Page, { series }: Metrics): Promise<void> {
  for (const [title, labels] of Object.entries(lines)) {
    const expected: Record<string, Point[]> = {};
    for (const [label, name] of Object.entries(labels)) {
      const points = (series.find((one) => one.name === name && one.worker === null)?.points ?? []) as Point[];
      if (points.length > 0) expected[label] = points.filter(([, , , last]) => last !== null);
    }
    expect(Object.keys(expected), title).not.toEqual([]);
    // A chart's table is the newest hundred of all its x.
    const xs = [...new Set(Object.values(expected).flatMap((points) => points.map(([x]) => x)))];
    const from = xs.sort((a, b) => b - a).slice(0, 100).at(-1)!;
    for (const label of Object.keys(expected)) expected[label] = expected[label]!.filter(([x]) => x >= from);
    await expect.poll(() => drawn(page, title), title).toEqual(expected);
  }
}
