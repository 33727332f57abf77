import type { Page } from '@playwright/test';
import { logText, valueOf } from './mock/data';
import type { MockHead } from './mock/head';
import { chart, fold, lines, marks, table } from './drawn';
import { expect, logIn, picture, test } from './fixtures';

test.beforeEach(({ page, address }) => logIn(page, address));

/** Opens the page of a job that runs. */
async function open(page: Page, address: string): Promise<void> {
  await page.goto(`${address}/jobs/job-run`);
  await expect(page.locator('.chart canvas')).toHaveCount(6);
}

function step(head: MockHead, at: number): void {
  const job = head.job('job-run');
  job.step = at;
  const points = ['loss', 'samples_per_second', 'bytes_sent', 'bytes_dense'].flatMap((name) => [
    [name, null, at, at * 0.21, at * 15_900, valueOf(name, at)],
    [name, 2, at, at * 0.21, at * 15_900, valueOf(name, at)],
  ]);
  head.publish('metrics', ['job:job-run'], { job: 'job-run', restarts: 0, points });
  const { workers: _, ...told } = job;
  head.publish('job', ['jobs', 'job:job-run'], told);
}

const histories = (head: MockHead) => head.requests.filter((request) => request.includes('/metrics'));

test('live: points are appended, the history is read once', async ({ page, address, head }) => {
  await open(page, address);
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  await picture(page, 'job');
  for (let at = 313; at <= 330; ++at) step(head, at);
  await expect(page.locator('.stats')).toContainText('330');
  const loss = page.locator('.chart', { hasText: 'Loss' });
  await expect(loss.locator('.legend')).toContainText(String(Number(valueOf('loss', 330).toPrecision(4))));
  await expect(page.getByRole('row', { name: /^2 worker n2/ })).toContainText('330');
  expect(histories(head)).toHaveLength(1);
});

test('live: a cut connection is told, and nothing is missed', async ({ page, address, head }) => {
  await open(page, address);
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  step(head, 313);
  await expect(page.locator('.stats')).toContainText('313');
  head.cut();
  await expect(page.getByRole('alert')).toContainText('Disconnected');
  await expect(page.getByRole('alert').locator('span[aria-hidden]')).toHaveText(/for \d+ s/); // is not read out
  await picture(page, 'disconnected');
  for (let at = 314; at <= 320; ++at) step(head, at);
  head.comeBack();
  await expect(page.locator('.stats')).toContainText('320');
  await expect(page.getByRole('alert')).toBeHidden();
  expect(histories(head)).toHaveLength(1);
});

test('live: a head that forgot our place is read anew', async ({ page, address, head }) => {
  await open(page, address);
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  step(head, 313);
  await expect(page.locator('.stats')).toContainText('313');
  head.cut();
  await expect(page.getByRole('alert')).toContainText('Disconnected');
  head.job('job-run').step = 400;
  head.forget();
  head.comeBack();
  await expect(page.locator('.stats')).toContainText('400');
  await expect.poll(() => histories(head).length).toBe(2);
});

test('one stream, whatever page is shown', async ({ page, address, head }) => {
  await open(page, address);
  await page.getByRole('link', { name: 'Logs', exact: true }).click();
  await expect(page.getByRole('log')).toContainText('rank');
  await page.getByRole('link', { name: 'Jobs', exact: true }).first().click();
  await expect(page.locator('tbody tr').first()).toBeVisible();
  await expect.poll(() => head.followers).toBe(1);
});

test('charts: axis, smoothing, zoom and log are in the URL', async ({ page, address, head }) => {
  await open(page, address);
  await page.getByRole('button', { name: 'Bytes', exact: true }).click();
  await expect(page).toHaveURL(/x=bytes/);
  await expect.poll(() => histories(head).at(-1)).toContain('x=bytes');
  await page.getByRole('button', { name: 'Step', exact: true }).click();
  await page.getByLabel('Smoothing').fill('0.8');
  await expect(page).toHaveURL(/smooth=0.8/);
  // The charts of the new axis, not those that are about to go.
  await expect(page.locator('.chart-plot[data-drawn^="step "]')).toHaveCount(6);
  await expect(page.locator('.chart-plot').first()).toHaveAttribute('data-drawn', /smoothed$/);
  const plot = page.locator('.chart .u-over').first();
  const box = (await plot.boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await expect(page).toHaveURL(/zoom=/);
  await expect.poll(() => histories(head).at(-1)).toMatch(/from=\d+.*&to=\d+/);
  await page.locator('.chart').first().getByRole('button', { name: 'log' }).click();
  await expect(page).toHaveURL(/log=traffic%2Closs/);
  const link = page.url();
  await picture(page, 'job-zoomed');
  await page.goto(link);
  await expect(page.locator('.chart canvas')).toHaveCount(6);
  await expect(page.getByLabel('Smoothing')).toHaveValue('0.8');
  await page.keyboard.press('Escape');
  await expect(page).not.toHaveURL(/zoom=/);
});

test('charts: by worker, and as a table', async ({ page, address }) => {
  await open(page, address);
  await page.getByLabel('each worker').check();
  await expect(page.locator('.chart').first().locator('.legend')).toContainText('rank 3');
  await picture(page, 'job-workers');
  await page.locator('.chart').first().getByText('Table of newest 100 of 312 points').click();
  await expect(page.locator('.chart').first().getByRole('cell', { name: '312', exact: true })).toBeVisible();
});

test('charts: by worker, of more workers than there are lines', async ({ page, address, head }) => {
  const job = head.job('job-run');
  job.workers = Array.from({ length: 12 }, (_, rank) => ({ ...job.workers![0]!, rank }));
  await page.goto(`${address}/jobs/job-run?by=worker`);
  await expect(chart(page, 'Loss')).toContainText('the first 8 of 12');
  await expect(chart(page, 'Loss').locator('.legend li')).toHaveCount(8);
  await expect(chart(page, 'Time per step, by phase')).not.toContainText('the first');
});

test('charts: no two ticks of an axis are written alike', async ({ page, address }) => {
  await page.addInitScript(() => {
    const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
      this.canvas.dataset['texts'] = `${this.canvas.dataset['texts'] ?? ''}${text}|`;
      fillText.call(this, text, ...place);
    };
    CanvasRenderingContext2D.prototype.clearRect = function (...place) {
      this.canvas.dataset['texts'] = '';
      clearRect.call(this, ...place);
    };
  });
  await page.goto(`${address}/jobs/job-run?x=wall&zoom=60~61`);
  const drawn = chart(page, 'Throughput, samples/s').locator('canvas');
  await expect(drawn).toHaveAttribute('data-texts', /1 min 00\.5 s/);
  const texts = (await drawn.getAttribute('data-texts'))!.split('|').slice(0, -1);
  expect(texts).toEqual([...new Set(texts)]);
});

test('charts: each line draws its own series, each value at its place', async ({ page, address }) => {
  await open(page, address);
  for (const [title, series] of Object.entries(lines)) {
    const shown = Object.entries(series).filter(([, name]) => name !== 'test_loss'); // this job has none
    const columns = await table(page, title);
    expect(Object.keys(columns), title).toEqual(shown.map(([label]) => label));
    for (const [label, name] of shown) {
      const every = name === 'accuracy' ? 50 : 1;
      const steps = Array.from({ length: 312 }, (_, index) => index + 1).filter((step) => step % every === 0);
      const spread = name === 'loss' ? 0.05 : 0;
      const points = steps.map((at) => {
        const value = valueOf(name, at);
        return [at, value - spread, value + spread, value];
      });
      expect(columns[label], `${title}, ${label}`).toEqual(points.slice(-100));
    }
    await fold(page, title);

    // What is painted: a dot on each line, in the colour of its name, as high as its value.
    for (const place of [0.1, 0.5, 0.9]) {
      const dots = await marks(page, title, place);
      expect(dots.map(({ label }) => label).sort(), title).toEqual(shown.map(([label]) => label).sort());
      const height = title.startsWith('Traffic') ? Math.log : (value: number) => value;
      const [low, high] = [...dots].sort((a, b) => a.value - b.value).filter((_, i, all) => !i || i === all.length - 1);
      for (const { label, y, value } of dots.length > 1 ? dots : []) {
        const share = (height(value) - height(low!.value)) / (height(high!.value) - height(low!.value));
        expect(Math.abs(y - (low!.y + share * (high!.y - low!.y))), `${title}, ${label} at ${place}`).toBeLessThan(2);
        expect(high!.y, title).toBeLessThan(low!.y);
      }
    }
  }
});

test('logs: a live tail of few elements, found, paused, filtered, downloaded unrendered', async ({
  page,
  address,
  head,
}) => {
  await open(page, address);
  await page.getByRole('link', { name: 'Logs', exact: true }).click();
  const log = page.getByRole('log');
  await expect(log).toContainText('rank 3');
  expect(await page.locator('.log-line').count()).toBeLessThan(200);
  await expect.poll(() => head.follows('logs:job-run')).toBe(true);
  const { size } = logText(head.job('job-run'), new URLSearchParams({ worker: '3' }));
  head.publish('log', ['logs:job-run'], { job: 'job-run', worker: 3, offset: size, text: 'fresh from the worker\n' });
  await expect(log).toContainText('fresh from the worker');
  await picture(page, 'job-logs');
  await page.getByRole('button', { name: 'Pause' }).click();
  head.publish('log', ['logs:job-run'], { job: 'job-run', worker: 3, offset: size + 22, text: 'while paused\n' });
  await expect(page.getByRole('button', { name: 'Follow (1 new)' })).toBeVisible();
  await expect(log).not.toContainText('while paused');
  await page.getByRole('button', { name: /Follow/ }).click();
  await expect(log).toContainText('while paused');
  await page.getByLabel('Worker').selectOption('2');
  await expect(log).not.toContainText('rank 3');
  await page.getByLabel('Find in the log').fill('step 7 ');
  await expect(page.getByText('not found')).toBeVisible();
  while (await page.getByText('of earlier output not shown').isVisible()) {
    const before = await page.locator('.log-note').innerText();
    await page.getByRole('button', { name: 'Show more' }).click();
    await expect.poll(() => page.locator('.log-note').allInnerTexts()).not.toEqual([before]);
  }
  await expect(page.getByText('1 of 1 lines')).toBeVisible();
  await page.getByLabel('Find in the log').fill('step 2001 ');
  await expect(page.getByText('1 of 1 lines')).toBeVisible();
  await page.getByLabel('Next match').click();
  await expect(log.locator('mark')).toHaveText('step 2001 ');
  await log.evaluate((box) => box.scrollTo(0, 0));
  await expect(log.locator('mark')).toHaveCount(0);
  await page.getByLabel('Next match').click();
  await expect(log.locator('mark')).toHaveText('step 2001 ');
  await expect(page.getByRole('link', { name: 'Download' })).toHaveAttribute('href', /worker=2&format=text/);
  await expect(page).toHaveURL(/worker=2/);
});

test('logs: live output is shown though the end could not be read', async ({ page, address, head }) => {
  await page.route('**/api/v1/jobs/job-run/logs?*', (route) => route.abort());
  await page.goto(`${address}/jobs/job-run?tab=logs`);
  const alert = page.getByRole('alert');
  await expect(alert.getByRole('button', { name: 'Try again' })).toBeVisible();
  await expect.poll(() => head.follows('logs:job-run')).toBe(true);
  const { size } = logText(head.job('job-run'), new URLSearchParams({ worker: '3' }));
  head.publish('log', ['logs:job-run'], { job: 'job-run', worker: 3, offset: size, text: 'fresh from the worker\n' });
  await expect(page.getByRole('log')).toContainText('fresh from the worker');
  await page.unrouteAll();
  await alert.getByRole('button', { name: 'Try again' }).click();
  await expect(page.getByRole('log')).toContainText('rank 3'); // whose lines are the last
  await expect(alert).toHaveCount(0);
});

test('logs: output is text', async ({ page, address }) => {
  await page.goto(`${address}/jobs/job-run?tab=logs&worker=0&find=alert`);
  await expect(page.getByText('1 of 1 lines')).toBeVisible();
  await page.getByLabel('Next match').click();
  await expect(page.getByRole('log')).toContainText('<script>alert(');
  await expect(page.locator('.log script')).toHaveCount(0);
});

test('events, checkpoints, spec', async ({ page, address }) => {
  await open(page, address);
  await page.getByRole('link', { name: /^Events/ }).click();
  await expect(page.getByText('node n3 sent no heartbeat')).toBeVisible();
  await picture(page, 'job-events');
  await page.getByRole('link', { name: /^Checkpoints/ }).click();
  await expect(page.getByRole('link', { name: 'step-250.safetensors' })).toHaveAttribute(
    'href',
    '/api/v1/jobs/job-run/checkpoints/250',
  );
  await picture(page, 'job-checkpoints');
  await page.getByRole('link', { name: 'Spec' }).click();
  await expect(page.locator('pre')).toContainText('"fashion-mnist"');
  await expect(page.getByRole('button', { name: 'Copy the spec', exact: true })).toBeVisible();
  await picture(page, 'job-spec');
});

test('stop asks first; then the job can be deleted, and its page is left', async ({ page, head, address }) => {
  await open(page, address);
  await expect(page.getByRole('button', { name: 'Delete' })).toBeDisabled();
  const stop = page.getByRole('button', { name: 'Stop', exact: true });
  const dialog = page.getByRole('dialog');
  await stop.click();
  await expect(dialog).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(dialog).toBeHidden();
  expect(head.job('job-run').state).toBe('RUNNING');
  const body = JSON.stringify({ type: 'about:blank', title: 'Not now', status: 409 });
  await page.route('**/jobs/job-run/stop', (route) =>
    route.fulfill({ status: 409, contentType: 'application/problem+json', body }),
  );
  for (const _ of ['for the first time', 'again']) {
    await stop.click();
    await expect(page.locator('.error')).toHaveCount(0);
    await dialog.getByRole('button', { name: 'Stop the job' }).click();
    await expect(page.locator('.error')).toContainText('Not now');
  }
  await page.getByRole('button', { name: 'Dismiss' }).click();
  await expect(page.locator('.error')).toHaveCount(0);
  await page.unrouteAll();
  await stop.click();
  await dialog.getByRole('button', { name: 'Stop the job' }).click();
  await expect(page.locator('h1 .badge')).toHaveText('STOPPED');
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete for ever' }).click();
  await expect(page).toHaveURL(`${address}/jobs`);
  expect(head.jobs.some(({ id }) => id === 'job-run')).toBe(false);
});

test('whoever leaves before a job is deleted stays where they went', async ({ page, address }) => {
  await page.goto(`${address}/jobs/job-fail`);
  let answer = () => {};
  const held = new Promise<void>((resolve) => (answer = resolve));
  await page.route('**/api/v1/jobs/job-fail', async (route) => {
    if (route.request().method() === 'DELETE') await held;
    await route.continue();
  });
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete for ever' }).click();
  await page.getByRole('link', { name: 'Nodes', exact: true }).click();
  await expect(page).toHaveURL(`${address}/nodes`);
  const answered = page.waitForResponse((response) => response.request().method() === 'DELETE');
  answer();
  await answered;
  await page.evaluate(() => fetch('/api/v1/version').then(() => {})); // the page has seen the answer by then
  await expect(page).toHaveURL(`${address}/nodes`);
});

test('a part whose script does not come asks for a reload', async ({ page, address }) => {
  await page.goto(`${address}/jobs`);
  await page.route('**/assets/job_parts-*.js', (route) => route.fulfill({ status: 404 }));
  await page.getByRole('link', { name: 'lenet-dgc', exact: true }).click();
  await expect(page.getByRole('alert')).toContainText('could not be loaded: reload the page');
  await page.unrouteAll();
  await page.getByRole('button', { name: 'Reload' }).click();
  await expect(page.locator('.chart canvas')).toHaveCount(6);
});

test('a job that somebody removes says so, and leaves the lists', async ({ page, head, address }) => {
  await open(page, address);
  const list = await page.context().newPage();
  await list.goto(`${address}/jobs`);
  await expect(list.getByRole('link', { name: 'lenet-dgc', exact: true })).toBeVisible();
  await expect(list.getByText('Live', { exact: true })).toBeVisible();
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  head.remove('job-run');
  await expect(page.getByText('lenet-dgc was removed')).toBeVisible();
  await expect(page).toHaveURL(`${address}/jobs/job-run`);
  await picture(page, 'job-removed');
  await expect(list.getByRole('link', { name: 'lenet-dgc', exact: true })).toHaveCount(0);
  await expect(list.locator('tbody tr')).toHaveCount(50);
  await page.getByRole('link', { name: 'Back to the jobs' }).click();
  await expect(page.getByRole('link', { name: 'sweep-10000', exact: true })).toBeVisible();
});

test('a failed job says who, where and why', async ({ page, address }) => {
  await page.goto(`${address}/jobs/job-fail`);
  await expect(page.getByText('worker 2 on n2 was killed by signal 9')).toBeVisible();
  await expect(page.getByRole('row', { name: /^2 worker n2/ })).toContainText('signal 9');
  await picture(page, 'job-failed');
});
