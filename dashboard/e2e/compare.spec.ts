import { readFileSync } from 'node:fs';
import type { Page } from '@playwright/test';
import { picksMax } from '../src/compare/picks';
import { valueOf } from './mock/data';
import { ended, scaleOf } from './mock/compared';
import type { MockHead } from './mock/head';
import { legend, table } from './drawn';
import { expect, logIn, picture, test } from './fixtures';

test.beforeEach(async ({ page, address, head }) => {
  const like = head.job('job-run');
  head.jobs.splice(
    3,
    0,
    ended(like, 'dense', { seed: 1, compressor: 'none', minutes: 8 }, { accuracy: 0.912, bytes_sent: 462_000_000 }),
    ended(
      like,
      'sparse',
      { seed: 2, compressor: 'topk', params: { ratio: 0.01 }, minutes: 6 },
      { accuracy: 0.897, bytes_sent: 9_240_000 },
    ),
    ended(like, 'poor', { seed: 3, compressor: 'topk', params: { ratio: 0.1 }, minutes: 7 }, { accuracy: 0.88 }),
  );
  head.job('poor').summary.bytes_sent = 92_400_000;
  await logIn(page, address);
});

const rows = (page: Page) =>
  page.getByRole('region', { name: 'Compared jobs' }).locator('tbody th a').allTextContents();
/** Requests for series; what asks for one point asks which there are. */
const seriesReads = (head: MockHead) =>
  head.requests.filter((request) => request.includes('/metrics') && !request.endsWith('points=1'));
const cell = (page: Page, job: string, column: string) =>
  page.getByRole('region', { name: 'Compared jobs' }).evaluate(
    (region, [of, title]) => {
      const titles = [...region.querySelectorAll('thead th')].map((one) => one.textContent!.replace(/ [▲▼]$/, ''));
      const row = [...region.querySelectorAll('tbody tr')].find((one) => one.querySelector('a')?.textContent === of);
      return row?.children[titles.indexOf(title!)]?.textContent ?? null;
    },
    [job, column],
  );

/** Until each of the two charts has all of these jobs, with a value of each that has begun. */
async function complete(page: Page, head: MockHead, ids: readonly string[]): Promise<void> {
  const jobs = head.jobs.filter(({ id }) => ids.includes(id));
  const begun = jobs.filter((job) => job.step > 0);
  await expect(page.locator('.chart canvas')).toHaveCount(2);
  await expect(page.locator('.chart .legend li')).toHaveCount(2 * jobs.length);
  await expect(page.locator('.chart .legend data')).toHaveCount(2 * begun.length);
}

async function open(page: Page, head: MockHead, address: string, query: string): Promise<void> {
  await page.goto(`${address}/compare?${query}`);
  const ids = new URLSearchParams(query).get('jobs')!.split(',');
  await complete(page, head, ids.slice(0, picksMax));
}

test('from the list: two jobs are ticked, compared, and Back leads to the ticks', async ({ page, address }) => {
  await page.goto(`${address}/jobs`);
  await expect(page.getByRole('button', { name: 'Compare', exact: true })).toBeDisabled();
  await page.getByRole('checkbox', { name: 'Compare dense' }).check();
  await expect(page.getByRole('button', { name: 'Compare 1' })).toBeDisabled();
  await page.getByRole('button', { name: 'Older' }).click();
  await page.getByRole('checkbox', { name: 'Compare sweep-9950' }).check();
  await page.getByRole('button', { name: 'Newer' }).click();
  await page.getByRole('checkbox', { name: 'Compare sweep-9950' }).waitFor({ state: 'detached' });
  await page.getByRole('checkbox', { name: 'Compare sparse' }).check();
  await expect(page.getByRole('link', { name: 'Compare 3 jobs' })).toBeVisible();
  await page.getByRole('link', { name: 'Compare 3 jobs' }).click();
  await expect(page).toHaveURL(`${address}/compare?jobs=dense%2Cjob-09950%2Csparse`);
  await expect(page.locator('.chart canvas')).toHaveCount(2);
  await expect.poll(() => rows(page)).toEqual(['dense', 'sweep-9950', 'sparse']);
  await page.getByRole('button', { name: 'Bytes', exact: true }).first().click();
  await expect(page).toHaveURL(/x=bytes/);
  await page.goBack();
  await expect(page.getByRole('link', { name: 'Compare 3 jobs' })).toBeVisible();
  await expect(page.getByRole('checkbox', { name: 'Compare sparse' })).toBeChecked();
  await page.getByRole('button', { name: 'Untick all' }).click();
  await expect(page.getByRole('checkbox', { name: 'Compare sparse' })).not.toBeChecked();
});

test('no more jobs can be ticked than can be compared', async ({ page, address }) => {
  const ids = Array.from({ length: 9 }, (_, index) => `job-0999${index}`);
  await page.goto(`${address}/jobs?pick=${ids.join(',')}`);
  await page.getByRole('checkbox', { name: 'Compare dense' }).check();
  await expect(page.getByRole('link', { name: 'Compare 10 jobs' })).toBeVisible();
  await expect(page.getByRole('checkbox', { name: 'Compare sparse' })).toBeDisabled();
  await page.getByRole('checkbox', { name: 'Compare dense' }).uncheck();
  await expect(page.getByRole('checkbox', { name: 'Compare sparse' })).toBeEnabled();
});

test('the table: figures, the best of each, sorted, all in the URL', async ({ page, address, head }) => {
  await open(page, head, address, 'jobs=dense,sparse,poor,job-run');
  expect(await cell(page, 'dense', 'Accuracy')).toBe('91.2 %★best');
  expect(await cell(page, 'sparse', 'Accuracy')).toBe('89.7 %');
  expect(await cell(page, 'sparse', 'Sent')).toBe('9.2 MB★best');
  expect(await cell(page, 'lenet-dgc', 'Sent'), 'it goes on: no total yet').toBe('5.0 MB');
  expect(await cell(page, 'sparse', 'Ran')).toBe('6 min 00 s★best');
  expect(await cell(page, 'lenet-dgc', 'Ran')).toMatch(/so far$/);
  expect(await cell(page, 'sparse', 'Compressor')).toBe('topk, ring');
  expect(await cell(page, 'sparse', 'Workers')).toBe('4');
  await page.getByRole('button', { name: 'Sent' }).click();
  await expect(page).toHaveURL(/sort=bytes_sent/);
  await expect.poll(() => rows(page)).toEqual(['lenet-dgc', 'sparse', 'poor', 'dense']);
  await page.getByRole('button', { name: 'Sent' }).click();
  await expect(page).toHaveURL(/sort=-bytes_sent/);
  await page.reload();
  await expect.poll(() => rows(page)).toEqual(['dense', 'poor', 'sparse', 'lenet-dgc']);
  await expect(page.getByRole('columnheader', { name: 'Sent' })).toHaveAttribute('aria-sort', 'descending');
  await page.getByRole('button', { name: 'Leave out poor' }).click();
  await expect.poll(() => rows(page)).toEqual(['dense', 'sparse', 'lenet-dgc']);
  await expect(page).toHaveURL(/jobs=dense%2Csparse%2Cjob-run/);
  await page.getByRole('link', { name: 'sparse', exact: true }).click();
  await expect(page).toHaveURL(`${address}/jobs/sparse`);
});

test('of more than ten jobs the first are compared, and the next moves up', async ({ page, address, head }) => {
  const numbers = Array.from({ length: 10 }, (_, index) => 9990 + index);
  const ids = ['dense', ...numbers.map((number) => `job-0${number}`), 'sparse'];
  await open(page, head, address, `jobs=${ids.join(',')}`);
  await expect(page.getByText('More than 10 jobs were chosen')).toBeVisible();
  const choose = page.getByRole('link', { name: 'Choose other jobs' });
  await expect(choose).toHaveAttribute('href', `/jobs?pick=${ids.join('%2C')}`);
  await page.getByRole('button', { name: 'Leave out dense' }).click();
  await expect(page).toHaveURL(`${address}/compare?jobs=${ids.slice(1).join('%2C')}`);
  await expect.poll(() => rows(page)).toEqual(numbers.map((number) => `sweep-${number}`));
  await expect(choose).toHaveAttribute('href', `/jobs?pick=${ids.slice(1).join('%2C')}`);
});

test('differences: only the keys that differ, a column for each job', async ({ page, address, head }) => {
  await open(page, head, address, 'jobs=dense,sparse,poor');
  const region = page.getByRole('region', { name: 'Differences of the specs' });
  await expect(region.getByRole('row')).toHaveText([
    /^Keydensesparsepoor$/,
    /^\/compression\/namenonetopktopk$/,
    /^\/compression\/params\/ratio–not given0\.010\.1$/,
    /^\/training\/seed123$/,
  ]);
});

test('charts: each line is the series of its own job, with one style everywhere', async ({ page, address, head }) => {
  await open(page, head, address, 'jobs=dense,sparse,poor');
  for (const [title, name] of [
    ['Test accuracy', 'accuracy'],
    ['Training loss', 'loss'],
  ] as const) {
    const columns = await table(page, title);
    expect(Object.keys(columns), title).toEqual(['dense', 'sparse', 'poor']);
    for (const id of ['dense', 'sparse', 'poor']) {
      const value = valueOf(name, name === 'accuracy' ? 300 : 312) * scaleOf(head.job(id));
      expect(columns[id]!.at(-1)!.at(-1), `${title} of ${id}`).toBeCloseTo(value, 9);
    }
  }
  const strokes = (scope: string) =>
    page.locator(`${scope} line[stroke-dasharray]`).evaluateAll((lines) =>
      lines.map((line) => `${line.getAttribute('stroke')} ${line.getAttribute('stroke-dasharray')}`),
    );
  const inTable = await strokes('.compared');
  expect(new Set(inTable).size).toBe(3);
  expect(await strokes('.chart:first-child .legend')).toEqual(inTable);
  await expect(page.locator('.chart-plot[data-drawn^="step "]')).toHaveCount(2);
});

test('deep link: all of what is shown; a reload shows the same', async ({ page, head, address }) => {
  const chosen = 'm=accuracy,bytes_sent&x=wall&smooth=0.6&log=accuracy&cost=seconds';
  await page.goto(`${address}/compare?jobs=dense,sparse&${chosen}`);
  const shown = async () => {
    await expect(page.locator('.chart h3')).toHaveText(['Test accuracy', 'Bytes sent']);
    await expect(page.locator('.chart-plot[data-drawn^="wall "]')).toHaveCount(2);
    await expect(page.getByLabel('Smoothing')).toHaveValue('0.6');
    const logs = page.locator('.chart').getByRole('button', { name: 'log', exact: true });
    await expect(logs.first()).toHaveAttribute('aria-pressed', 'true');
    await expect(logs.last()).toHaveAttribute('aria-pressed', 'false');
    await expect(page.getByRole('heading', { name: 'Accuracy against time from start to end' })).toBeVisible();
  };
  await shown();
  await complete(page, head, ['dense', 'sparse']);
  // Read as it is shown, and down-sampled by the head: not by step first. The jobs are read side by side.
  expect([...new Set(seriesReads(head))].sort()).toEqual([
    expect.stringMatching(/dense\/metrics\?worker=job&x=wall&points=\d+&name=accuracy%2Cbytes_sent$/),
    expect.stringMatching(/sparse\/metrics\?worker=job&x=wall&points=\d+&name=accuracy%2Cbytes_sent$/),
  ]);
  const plot = page.locator('.chart .u-over').first();
  const box = (await plot.boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await expect(page).toHaveURL(/zoom=/);
  await expect.poll(() => seriesReads(head).at(-1)).toMatch(/from=\d+.*&to=\d+/);
  await page.reload();
  await shown();
  await expect(page.getByRole('button', { name: 'Show all' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page).not.toHaveURL(/zoom=/);
});

test('any metric of the jobs can be charted', async ({ page, address, head }) => {
  await open(page, head, address, 'jobs=dense,sparse');
  await page.locator('summary', { hasText: 'Metrics' }).click();
  await page.getByRole('checkbox', { name: 'Wait seconds' }).check();
  await expect(page.locator('.chart h3')).toHaveText(['Test accuracy', 'Training loss', 'Wait seconds']);
  await expect(page).toHaveURL(/m=accuracy%2Closs%2Cwait_seconds/);
  await page.getByRole('checkbox', { name: 'Test accuracy' }).uncheck();
  await page.getByRole('checkbox', { name: 'Training loss' }).uncheck();
  await expect(page.getByRole('checkbox', { name: 'Wait seconds' }), 'the last one stays').toBeDisabled();
  await expect(page.locator('.chart canvas')).toHaveCount(1);
});

test('a metric may be called like something that every object has', async ({ page, address }) => {
  await page.goto(`${address}/compare?jobs=dense,sparse&m=__proto__,constructor,loss`);
  await expect(page.locator('.chart h3')).toHaveText([/proto/, 'Constructor', 'Training loss']);
  await expect.poll(() => rows(page)).toEqual(['dense', 'sparse']);
});

function step(head: MockHead, at: number): void {
  const job = head.job('job-run');
  job.step = at;
  const points = [['loss', null, at, at * 0.21, at * 15_900, valueOf('loss', at)]];
  head.publish('metrics', ['job:job-run'], { job: 'job-run', restarts: 0, points });
  const { workers: _, ...told } = job;
  head.publish('job', ['jobs', 'job:job-run'], told);
}

test('live: a job that runs gains points and figures; the others cost no topic', async ({ page, address, head }) => {
  await open(page, head, address, 'jobs=dense,job-run');
  await expect.poll(() => head.follows('job:job-run')).toBe(true);
  expect(head.follows('job:dense')).toBe(false);
  const before = seriesReads(head);
  step(head, 313);
  await expect.poll(async () => (await legend(page, 'Training loss'))['lenet-dgc']).toBe(valueOf('loss', 313));
  expect(seriesReads(head), 'the history is not read again').toEqual(before);
  await expect(page.getByText('Circles that are empty')).toBeVisible();
  const sent = { accuracy: 0.93, bytes_sent: 5_100_000 };
  head.setState('job-run', 'SUCCEEDED', {
    phase: '',
    ended_at: new Date().toISOString(),
    summary: { ...head.job('job-run').summary, ...sent },
  });
  await expect.poll(() => cell(page, 'lenet-dgc', 'Sent')).toBe('5.1 MB★best');
  await expect(page.getByText('Circles that are empty')).toBeHidden();
});

test('accuracy against bytes: the front, and by time', async ({ page, address, head }) => {
  await open(page, head, address, 'jobs=dense,sparse,poor,job-run,job-wait');
  const plot = page.locator('.tradeoff');
  await expect(plot).toHaveAttribute('aria-label', 'Accuracy by bytes sent. On the front: sparse, dense');
  await expect(plot.locator('[data-front=true] .tradeoff-name')).toHaveText(['dense', 'sparse']);
  await expect(plot.locator('[data-front=false] .tradeoff-name')).toHaveText(['poor', 'lenet-dgc']);
  await expect(page.getByText('No other one is both better and cheaper than sparse (89.7 %, 9.2 MB)')).toBeVisible();
  await expect(page.getByText(/^Not drawn: .*\(no accuracy\)\.$/)).toBeVisible();
  const places = () =>
    plot.locator('circle').evaluateAll((circles) =>
      circles.map((circle) => [Number(circle.getAttribute('cx')), Number(circle.getAttribute('cy'))] as const),
    );
  const [dense, sparse, poor, running] = (await places()) as [number, number][];
  const across = [running![0], sparse![0], poor![0], dense![0]];
  expect(across).toEqual([...across].sort((a, b) => a - b));
  expect(dense![1], 'better is higher').toBeLessThan(sparse![1]);
  expect(sparse![1]).toBeLessThan(poor![1]);
  // On a log axis ten times as much is as far anywhere.
  const decade = (poor![0] - sparse![0]) / Math.log(92.4 / 9.24);
  expect((dense![0] - sparse![0]) / Math.log(462 / 9.24)).toBeCloseTo(decade, 3);
  await page.getByRole('button', { name: 'Time', exact: true }).last().click();
  await expect(page).toHaveURL(/cost=seconds/);
  await expect(plot).toHaveAttribute('aria-label', 'Accuracy by time from start to end. On the front: sparse, dense');
  await picture(page, 'compare');
});

test('a job that is gone is named, and the rest is shown', async ({ page, address, head }) => {
  await open(page, head, address, 'jobs=dense,nope,sparse');
  await expect(page.getByText('There is no job nope')).toBeVisible();
  await expect(page.getByText('Disconnected')).toBeHidden();
  await expect.poll(() => rows(page)).toEqual(['dense', 'sparse']);
  expect(head.requests.filter((request) => request.includes('nope/metrics'))).toEqual([]);
  await page.getByRole('button', { name: 'Leave it out' }).click();
  await expect(page).toHaveURL(/jobs=dense%2Csparse/);
  await expect(page.getByText('There is no job nope')).toBeHidden();
  head.remove('sparse');
  await expect(page.getByText('There is no job sparse')).toBeVisible();
  await expect(page.getByText('Choose two jobs or more')).toBeVisible();
  await expect.poll(() => rows(page)).toEqual(['dense']);
  await picture(page, 'compare-gone');
});

test('fewer than two jobs: what to do', async ({ page, address }) => {
  await page.goto(`${address}/compare`);
  await expect(page.getByText('Choose two jobs or more')).toBeVisible();
  await expect(page.getByRole('alert')).toHaveCount(0);
  await page.getByRole('link', { name: 'list of jobs' }).click();
  await expect(page).toHaveURL(/\/jobs\?pick=$/);
  await expect(page.locator('tbody tr')).toHaveCount(50);
});

test('what cannot be read says so with its request, and can be read again', async ({ page, address }) => {
  const body = JSON.stringify({ type: 'about:blank', title: 'Broken', status: 500, detail: 'no', request_id: 'req-9' });
  await page.route('**/api/v1/jobs/sparse', (route) =>
    route.fulfill({ status: 500, contentType: 'application/problem+json', body }),
  );
  await page.goto(`${address}/compare?jobs=dense,sparse`);
  await expect(page.getByRole('alert')).toContainText('Request req-9');
  await expect.poll(() => rows(page)).toEqual(['dense']);
  await page.unrouteAll();
  await page.getByRole('button', { name: 'Try again' }).click();
  await expect.poll(() => rows(page)).toEqual(['dense', 'sparse']);
  await expect(page.getByRole('alert')).toHaveCount(0);
});

test('CSV: the points that the charts show, in the columns of a job', async ({ page, address, head }) => {
  await open(page, head, address, 'jobs=dense,sparse&m=loss,accuracy');
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'CSV' }).click();
  const download = await saved;
  expect(download.suggestedFilename()).toBe('compare.csv');
  const lines = readFileSync((await download.path())!, 'utf8').split('\r\n');
  expect(lines[0]).toBe('job,name,worker,x,min,max,last');
  expect(lines).toHaveLength(1 + 2 * (312 + 6) + 1);
  const value = valueOf('accuracy', 300) * scaleOf(head.job('sparse'));
  expect(lines).toContain(`sparse,accuracy,,300,${value},${value},${value}`);
});

test('keyboard: ticked, compared and sorted without a mouse', async ({ page, address, head }) => {
  await page.goto(`${address}/jobs`);
  await expect(page.locator('tbody tr')).toHaveCount(50);
  for (const key of ['j', 'j', 'j', 'j', 'x', 'j', 'x']) await page.keyboard.press(key);
  await expect(page.getByRole('link', { name: 'Compare 2 jobs' })).toBeVisible();
  await expect(page).toHaveURL(/pick=dense%2Csparse/);
  await page.keyboard.press('k'); // a row's link still has the focus
  await page.keyboard.press('Shift+Tab');
  await expect(page.getByRole('checkbox', { name: 'Compare dense' })).toBeFocused();
  await page.keyboard.press('Space');
  await expect(page).toHaveURL(/pick=sparse$/);
  await page.keyboard.press('x');
  await page.getByRole('link', { name: 'Compare 2 jobs' }).focus();
  await page.keyboard.press('Enter');
  await complete(page, head, ['dense', 'sparse']);
  await page.getByRole('button', { name: 'Accuracy', exact: true }).focus();
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/sort=-accuracy/);
  await expect.poll(() => rows(page)).toEqual(['dense', 'sparse']);
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(`${address}/jobs/dense`);
});
