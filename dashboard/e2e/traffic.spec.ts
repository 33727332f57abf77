import { readFileSync } from 'node:fs';
import type { Route } from '@playwright/test';
import { expect, logIn, picture, test } from './fixtures';

test.beforeEach(async ({ page, address }) => {
  await logIn(page, address);
  await page.goto(`${address}/jobs/job-run?tab=traffic`);
  await expect(page.getByRole('heading', { name: 'Who talks to whom' })).toBeVisible();
});

test('traffic: who has sent how much to whom, in which phase, for which tensor', async ({ page }) => {
  const matrix = page.getByRole('region', { name: 'Bytes by link' });
  await expect(matrix.getByRole('row')).toHaveCount(5);
  const cells = (row: number) => matrix.getByRole('row').nth(row).getByRole('cell').allTextContents();
  expect(await cells(1)).toEqual(['–', '312 kB', '–', '–', '312 kB']);
  expect(await cells(4)).toEqual(['1.2 MB', '–', '–', '–', '1.2 MB']);
  const tint = (row: number, column: number) =>
    matrix
      .getByRole('row')
      .nth(row)
      .getByRole('cell')
      .nth(column)
      .evaluate((cell) => Number(/\/ ([\d.]+)\)/.exec(getComputedStyle(cell).backgroundColor)?.[1] ?? 0));
  expect(await tint(1, 2), 'nothing was sent').toBe(0);
  expect(await tint(1, 1)).toBeGreaterThan(0);
  expect(await tint(4, 0), 'the most was sent').toBeGreaterThan(await tint(1, 1));
  await expect(page.getByRole('region', { name: 'Bytes by phase' }).getByRole('row')).toHaveText([
    /Phase/,
    /dense780 kB780 kB/,
    /pass 12\.3 MB2\.3 MB/,
    /other0 B0 B/,
  ]);
  await expect(page.getByRole('region', { name: 'Bytes by tensor' }).getByRole('row').last()).toHaveText(
    /the rest390 kB390 kB/,
  );
  await picture(page, 'job-traffic');
});

test('traffic: follows a running job, and is read no more once it has ended', async ({ page, head }) => {
  await page.clock.install();
  await page.reload();
  const all = page.getByText(/sent by step/);
  await expect(all).toContainText('3.1 MB sent by step 312');
  head.job('job-run').step = 624;
  await page.clock.fastForward(3000);
  await expect(all).toContainText('6.2 MB sent by step 624');
  const reads = () => head.requests.filter((request) => request.includes('/traffic')).length;
  head.job('job-run').step = 936;
  head.setState('job-run', 'SUCCEEDED', { phase: '', ended_at: new Date().toISOString() });
  await expect(page.locator('h1 .badge')).toHaveText('SUCCEEDED');
  await expect(all).toContainText('9.4 MB sent by step 936');
  const last = reads();
  for (let beat = 0; beat < 8; ++beat) {
    await page.clock.fastForward(3000);
    await page.evaluate(async () => void (await fetch('/api/v1/version'))); // comes after what the page has asked for
  }
  expect(reads(), 'no more than the read of the end').toBeLessThanOrEqual(last + 1);
});

test('traffic: of a job that was restarted is that since the restart', async ({ page, head }) => {
  const all = page.getByText(/sent by step/);
  await expect(all).toHaveText('3.1 MB sent by step 312');
  head.job('job-run').restarts = 1;
  await page.reload();
  await expect(all).toHaveText('3.1 MB sent by step 312, since the last restart');
});

test('traffic: the timeline of a step, by pointer and by keyboard', async ({ page }) => {
  const first = page.getByRole('group', { name: /^Bucket 0:/ });
  await expect(first).toHaveAttribute('aria-label', /encode 1 ms, wait 1 ms, wire 3 ms, decode 1 ms/);
  const detail = page.locator('.steps-detail');
  const height = (await detail.boundingBox())!.height;
  await page.getByRole('group', { name: /^Bucket 2:/ }).locator('.span-wire').hover();
  await expect(detail).toHaveText('Bucket 2, wire, pass 1: 3 ms from 14 ms, 2.0 kB sent, 1.5 kB received');
  await first.focus();
  await expect(detail).toHaveText('Bucket 0, encode, pass 1: 1 ms from 0 s');
  await page.keyboard.press('ArrowRight');
  await expect(detail).toHaveText('Bucket 0, wait: 1 ms from 1 ms');
  expect((await detail.boundingBox())!.height, 'nothing moves').toBe(height);

  // Each bar stands where its time is.
  const track = (await first.boundingBox())!;
  const bar = (await first.locator('.span-wire').boundingBox())!;
  expect((bar.x - track.x) / track.width).toBeCloseTo(2 / 20, 2);
  expect(bar.width / track.width).toBeCloseTo(3 / 20, 2);

  await page.getByRole('button', { name: 'The slowest' }).click();
  await expect(page).toHaveURL(/step=slowest/);
  await expect(page.getByText(/^Step 17 of worker 0, 40 ms/)).toBeVisible();
  await page.getByRole('combobox', { name: /^Worker/ }).selectOption('2');
  await expect(page.getByText(/^Step 17 of worker 2, 40 ms/)).toBeVisible();
  await page.getByText('Table', { exact: true }).click();
  await expect(page.getByRole('region', { name: 'Buckets of the step' }).getByRole('row').nth(1)).toHaveText(
    /02 ms2 ms6 ms2 ms2\.0 kB1\.5 kB/,
  );
  await picture(page, 'job-traffic-slowest');
});

test('traffic: a step that could not be read is not one that is not there, nor the one before', async ({ page }) => {
  await expect(page.getByText(/^Step 312 of worker 0/)).toBeVisible();
  const body = JSON.stringify({ type: 'about:blank', title: 'No trace today', status: 500 });
  const fail = (route: Route) => route.fulfill({ status: 500, contentType: 'application/problem+json', body });
  await page.route('**/trace?worker=2*', fail);
  await page.getByRole('combobox', { name: /^Worker/ }).selectOption('2');
  await expect(page.getByRole('alert')).toContainText('No trace today');
  await expect(page.getByText('No such step')).toHaveCount(0);
  await page.unrouteAll();
  await expect(page.getByText(/^Step 312 of worker 2/)).toBeVisible();
  await expect(page.getByRole('alert')).toHaveCount(0);
  await page.route('**/trace?worker=2&step=slowest', fail);
  await page.getByRole('button', { name: 'The slowest' }).click();
  await expect(page.getByRole('alert')).toContainText('No trace today');
  await expect(page.getByText(/^Step 312 of/)).toHaveCount(0);
  await page.unrouteAll();
  await expect(page.getByText(/^Step 17 of worker 2/)).toBeVisible();
});

test('traffic: the trace of all workers is exported', async ({ page }) => {
  const coming = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Export trace' }).click();
  const download = await coming;
  expect(download.suggestedFilename()).toBe('job-run-trace.json');
  const trace = JSON.parse(readFileSync((await download.path())!, 'utf8'));
  expect(new Set(trace.traceEvents.map(({ pid }: { pid: number }) => pid))).toEqual(new Set([1, 2, 3, 4]));
});

test('traffic: the plan, why it is followed, and what else was tried', async ({ page }) => {
  const card = page.locator('.card', { has: page.getByRole('heading', { name: 'Plan', exact: true }) });
  await expect(card).toContainText('followed since step 31');
  await expect(card).toContainText('Why: the fastest of 3 tried: 43 ms a step.');
  await expect(card).toContainText("Measured: 50 µs for a message, 117 MB/s through a worker's port.");
  await expect(card.getByRole('region', { name: 'Routes of the plan' }).getByRole('row')).toHaveText([
    /Form and topology\s*Buckets\s*Gradients/,
    /coded over butterfly91\.7 MB/,
    /float32 over tree12\.3 kB/,
  ]);
  const candidates = card.getByRole('region', { name: 'Candidates, time of a step' });
  const row = (place: number) => candidates.getByRole('row').nth(place);
  await expect(candidates.getByRole('row')).toHaveCount(4);
  await expect(row(1)).toHaveText(/coded over butterfly.*followed40 ms43 ms/);
  await expect(row(2)).toHaveText(/bfloat16 over ring, 9 buckets; float32 over tree, 1 bucket48 ms80 ms/);
  await expect(card.getByText('followed', { exact: true })).toHaveCount(1);

  // The slowest has the whole width, the others their share of it.
  const width = async (place: number, bar: number) =>
    (await row(place).locator('.bar > div').nth(bar).boundingBox())!.width;
  const whole = (await row(2).locator('.bar').first().boundingBox())!.width;
  expect((await width(2, 1)) / whole).toBeCloseTo(1, 2);
  expect((await width(1, 0)) / whole).toBeCloseTo(40 / 80, 2);
  expect((await width(1, 1)) / whole).toBeCloseTo(43 / 80, 2);
});

test('traffic: a plan on trial, one that is fixed, and none', async ({ page, head, address }) => {
  await page.clock.install();
  const card = page.locator('.card', { has: page.getByRole('heading', { name: 'Plan', exact: true }) });
  head.job('job-run').step = 5;
  await page.reload();
  await expect(card).toContainText('No plan yet');
  await picture(page, 'job-traffic-no-plan');
  head.job('job-run').step = 15;
  await page.clock.fastForward(3000);
  await expect(card).toContainText('followed since step 11');
  await expect(card).toContainText('Why: on trial; not all candidates have been tried.');
  await expect(card.getByRole('row', { name: /^bfloat16 over ring, 9 buckets/ })).toHaveText(/followed48 ms–/);
  head.job('job-run').step = 50;
  await page.clock.fastForward(3000);
  await expect(card).toContainText('followed since step 31');

  await page.goto(`${address}/jobs/job-fail?tab=traffic`);
  await expect(card).toContainText('Why: exchange.topology is "ring".');
  await expect(card.getByRole('row')).toHaveText([/Form and topology/, /coded over ring101\.7 MB/]);
  await expect(card).not.toContainText('Measured');
});

test('traffic: of a job that has not begun there is none', async ({ page, address }) => {
  await page.goto(`${address}/jobs/job-wait?tab=traffic`);
  await expect(page.getByText('Nothing has been exchanged yet')).toBeVisible();
  await picture(page, 'job-traffic-none');
});
