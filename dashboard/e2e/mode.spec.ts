import type { Page } from '@playwright/test';
import { chart, legend, table } from './drawn';
import { expect, expectAccessible, logIn, picture, test } from './fixtures';
import { inMode } from './mock/modes';
import type { MockHead } from './mock/head';

const steps = 312;

test.beforeEach(async ({ page, address, head }) => {
  const like = head.job('job-run');
  head.jobs.push(
    inMode(like, 'served', { mode: 'backup', params: { servers: 2, backup_workers: 1 } }, 2),
    inMode(like, 'apart', { mode: 'local_sgd', params: { period: 8 } }),
    inMode(like, 'mixed', { mode: 'gossip', params: {} }),
    { ...inMode(head.job('job-wait'), 'waiting', { mode: 'backup', params: {} }), workers: [] },
    { ...inMode(like, 'alone', { mode: 'sync', params: {} }), workers: like.workers!.slice(0, 1) },
  );
  (head.job('alone').spec['resources'] as object) = { workers: 1 };
  await logIn(page, address);
});

async function open(page: Page, address: string, job: string): Promise<void> {
  await page.goto(`${address}/jobs/${job}`);
  await page.getByRole('link', { name: 'Mode', exact: true }).click();
  await expect(page.getByRole('heading', { name: 'Time of the shown steps, by worker' })).toBeVisible();
}

const titles = (page: Page) => page.locator('.chart h3').allInnerTexts();
const line = (points: number, value: (step: number) => number, every = 1) =>
  Array.from({ length: points }, (_, index) => (index + 1) * every)
    .slice(-100)
    .map((step) => [step, value(step), value(step), value(step)]);

function measure(head: MockHead, job: string, values: Record<string, number>, rank: number | null, step: number): void {
  const points = Object.entries(values).map(([name, value]) => [name, rank, step, step * 0.21, step * 15_900, value]);
  head.publish('metrics', [`job:${job}`], { job, restarts: 0, points });
}

test('a job with servers: staleness, dropped gradients and idle workers, live', async ({ page, address, head }) => {
  await open(page, address, 'served');
  await expect(page.getByText('Servers drop the gradients that come last')).toBeVisible();
  await expect(page.locator('.params')).toContainText('backup_workers1');
  await expect
    .poll(() => titles(page))
    .toEqual([
      'Idle share of a step, by worker',
      'Staleness of applied gradients, versions',
      'Dropped gradients, cumulative',
      'Dropped gradients, share of all',
    ]);
  await expect(chart(page, 'Dropped gradients, cumulative').locator('canvas')).toBeVisible();
  expect(await table(page, 'Staleness of applied gradients, versions')).toEqual({
    'server 0 mean': line(steps, () => 1),
    'server 0 max': line(steps, () => 2),
    'server 1 mean': line(steps, () => 1.5),
    'server 1 max': line(steps, () => 3),
  });
  expect(await table(page, 'Dropped gradients, cumulative')).toEqual({
    'server 0': line(steps, (step) => step),
    'server 1': line(steps, (step) => step),
  });
  expect(await table(page, 'Dropped gradients, share of all')).toEqual({
    'server 0': line(steps, () => 0.25),
    'server 1': line(steps, () => 0.25),
  });
  expect(await table(page, 'Idle share of a step, by worker')).toEqual({
    'rank 0': line(steps, () => 0.5),
    'rank 1': line(steps, () => 0.25),
  });
  await expect(page.getByRole('region', { name: 'Time by worker' }).getByRole('row')).toHaveText([
    /Worker\s*Computes\s*Waits/,
    /rank 050\.0 %50\.0 %/,
    /rank 175\.0 %25\.0 %/,
  ]);
  await picture(page, 'job-mode-servers');

  // What comes live is drawn, without reading the history again.
  const reads = () => head.requests.filter((request) => request.includes('/jobs/served/metrics')).length;
  const before = reads();
  await expect.poll(() => head.follows('job:served')).toBe(true);
  measure(head, 'served', { staleness: 7, staleness_max: 9, dropped_gradients: 400 }, 3, steps + 1);
  const staleness = () => legend(page, 'Staleness of applied gradients, versions');
  await expect.poll(staleness).toMatchObject({ 'server 1 max': 9 });
  const dropped = () => legend(page, 'Dropped gradients, cumulative');
  await expect.poll(dropped).toEqual({ 'server 0': steps, 'server 1': 400 });
  expect(reads()).toBe(before);
});

test('local steps, and the share of time that each worker waits', async ({ page, address }) => {
  await open(page, address, 'apart');
  await expect
    .poll(() => titles(page))
    .toEqual(['Idle share of a step, by worker', 'Local steps between exchanges, by worker']);
  await expect(chart(page, 'Local steps between exchanges, by worker').locator('canvas')).toBeVisible();
  const ranks = ['rank 0', 'rank 1', 'rank 2', 'rank 3'];
  expect(await table(page, 'Local steps between exchanges, by worker')).toEqual(
    Object.fromEntries(ranks.map((name) => [name, line(steps / 8, () => 8, 8)])),
  );
  const waits = page.getByRole('region', { name: 'Time by worker' }).getByRole('row');
  await expect(waits.nth(1)).toHaveText(/rank 050\.0 %50\.0 %/);
  await expect(waits.nth(4)).toHaveText(/rank 393\.8 %6\.3 %/);
  const bar = async (row: number, place: number) => {
    const all = (await waits.nth(row).locator('.bar').nth(place).boundingBox())!.width;
    return (await waits.nth(row).locator('.bar > div').nth(place).boundingBox())!.width / all;
  };
  expect(await bar(1, 1)).toBeCloseTo(0.5, 2);
  expect(await bar(4, 0)).toBeCloseTo(0.9375, 2);
  await page.getByRole('button', { name: 'Time', exact: true }).click();
  await expect(chart(page, 'Idle share of a step, by worker').locator('[data-drawn^="wall "]')).toBeVisible();
  await expect(waits.nth(1)).toHaveText(/rank 050\.0 %50\.0 %/);
  await picture(page, 'job-mode-local');
});

test('neighbours: how far their models are apart, on a log axis', async ({ page, address }) => {
  await open(page, address, 'mixed');
  const distance = chart(page, "Distance of the workers' models from their mean");
  await expect(distance.getByRole('button', { name: 'log' })).toHaveAttribute('aria-pressed', 'true');
  expect(await table(page, "Distance of the workers' models from their mean")).toEqual({
    'root mean square': line(6, (step) => 3 / step, 50),
  });
  await distance.getByRole('button', { name: 'log' }).click();
  await expect(page).toHaveURL(/modelog=-/);
});

test('before there is anything, the charts of the mode say why', async ({ page, address }) => {
  await open(page, address, 'waiting');
  await expect(page.getByText('The job has not begun')).toHaveCount(4);
  await expect(page.getByText('No step yet', { exact: true })).toBeVisible();
  await expectAccessible(page);
});

test('a worker by itself has no such page', async ({ page, address }) => {
  await page.goto(`${address}/jobs/alone`);
  await expect(page.locator('.chart canvas')).toHaveCount(6);
  await expect(page.getByRole('link', { name: 'Traffic', exact: true })).toBeVisible();
  await expect(page.getByRole('link', { name: 'Mode', exact: true })).toHaveCount(0);
});

test('what workers push to servers is not compared with a ring', async ({ page, address }) => {
  await page.goto(`${address}/jobs/served`);
  await expect(page.locator('.stats')).toContainText(/Bytes sent by workers5\.0 MBuncompressed 462 MB/);
  await expect.poll(async () => Object.keys(await legend(page, 'Traffic, cumulative'))).toEqual([
    'sent by workers',
    'uncompressed',
  ]);
  await expect(page.getByTitle("What the workers' pushes would have taken without compression")).toHaveCount(2);
});

test('servers are called so: in the table, the charts, the traffic and the logs', async ({ page, address }) => {
  await page.goto(`${address}/jobs/served`);
  await expect(page.getByRole('heading', { name: 'Workers and servers' })).toBeVisible();
  await expect(page.getByRole('row', { name: /^3 server 1 n2/ })).toBeVisible();
  await expect(page.getByRole('link', { name: 'Logs of server 1' })).toBeVisible();
  await page.getByLabel('each worker').check();
  await expect(chart(page, 'Traffic, cumulative').locator('.legend')).toContainText('server 1');
  await page.getByRole('link', { name: 'Traffic', exact: true }).click();
  const matrix = page.getByRole('region', { name: 'Bytes by link' });
  await expect(matrix.getByRole('columnheader')).toHaveText(['from \\ to', '0', '1', 'server 0', 'server 1', 'all']);
  await expect(matrix.locator('td[title$=" bytes from worker 1 to server 0"]')).toHaveCount(1);
  await expect(page.getByRole('heading', { name: 'By phase' })).toBeVisible();
  await expect(page.getByRole('heading', { name: 'One step, by bucket' }), 'pushes have none').toHaveCount(0);
  await page.getByRole('link', { name: 'Logs', exact: true }).click();
  await page.getByLabel('Worker').selectOption('');
  await expect(page.locator('.log-rank').first()).toHaveText(/^(r[01]|s[01])$/);
  await page.getByLabel('Worker').selectOption('server 1');
  await expect(page.getByRole('log')).toContainText('rank 3');
});
