import type { Page } from '@playwright/test';
import type { Node } from '../src/api/types';
import { expect, logIn, picture, test } from './fixtures';

const count = 2000;
const lost = 120;

/** Two thousand nodes with a GPU each, as the head lists them: the last ones by name are lost. */
test.beforeEach(async ({ page, address, head }) => {
  const [template, withGpus] = head.nodes as [Node, Node];
  head.nodes.length = 0;
  for (let index = 0; index < count; ++index) {
    const name = `rack-${String(index).padStart(4, '0')}`;
    const gpu = { ...withGpus.gpus![0]!, uuid: `GPU-${name}`, workers: [] };
    const state = index < count - lost ? 'alive' : 'lost';
    head.nodes.push({ ...template, id: `id-${name}`, name, state, workers: [], gpus: [gpu] });
  }
  await logIn(page, address);
});

const rows = (page: Page) => page.getByRole('region', { name: 'Nodes' }).locator('tbody tr');
const gpus = (page: Page) => page.getByRole('region', { name: 'GPUs' }).locator('tbody tr');
const pages = (page: Page) => page.getByRole('navigation', { name: 'Pages of the list' });

test('two thousand nodes: a page of them at a time, in the URL', async ({ page, address }) => {
  await page.goto(`${address}/nodes`);
  await expect(rows(page)).toHaveCount(50);
  await expect(gpus(page)).toHaveCount(50);
  await expect(pages(page)).toContainText('1 to 50 of 2,000');
  await expect(pages(page).getByRole('button', { name: 'Previous' })).toBeDisabled();
  await picture(page, 'nodes-many');
  await pages(page).getByRole('button', { name: 'Next' }).click();
  await expect(page).toHaveURL(`${address}/nodes?page=2`);
  await page.reload();
  await expect(rows(page).first()).toContainText('rack-0050');
  await expect(gpus(page).first()).toContainText('GPU-rack-0000');
  await page.getByRole('navigation', { name: 'Pages of the GPUs' }).getByRole('button', { name: 'Next' }).click();
  await expect(page).toHaveURL(`${address}/nodes?page=2&gpu_page=2`);
  await expect(gpus(page).first()).toContainText('GPU-rack-0050');
  await pages(page).getByRole('button', { name: 'Previous' }).click();
  await expect(rows(page).first()).toContainText('rack-0000');
  await expect(page).toHaveURL(`${address}/nodes?gpu_page=2`);
});

test('two thousand nodes: states and search are of all of them, and begin at the first page', async ({
  page,
  address,
}) => {
  await page.goto(`${address}/nodes?page=40&gpu_page=3`);
  await expect(rows(page).last()).toContainText('rack-1999');
  await expect(pages(page).getByRole('button', { name: 'Next' })).toBeDisabled();
  await page.getByRole('button', { name: 'Lost' }).click();
  await expect(page).toHaveURL(`${address}/nodes?state=lost`);
  await expect(pages(page)).toContainText('1 to 50 of 120');
  await expect(rows(page).first()).toContainText('rack-1880');
  await pages(page).getByRole('button', { name: 'Next' }).click();
  await page.keyboard.press('/');
  await page.keyboard.type('rack-19');
  await expect(page).toHaveURL(`${address}/nodes?state=lost&q=rack-19`);
  await expect(pages(page)).toContainText('1 to 50 of 100');
  await page.keyboard.type('99');
  await expect(rows(page)).toHaveText([/^rack-1999/]);
  await expect(gpus(page)).toHaveText([/GPU-rack-1999/]);
  await expect(pages(page)).toHaveCount(0);
  await page.getByRole('button', { name: 'Alive' }).click();
  await expect(page.getByText('No node matches')).toBeVisible();
});

test('two thousand nodes: their heartbeats change the page once a second, wherever the keyboard is', async ({
  page,
  address,
  head,
}) => {
  await page.goto(`${address}/nodes`);
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  await expect(rows(page)).toHaveCount(50);
  for (let press = 0; press < 3; ++press) await page.keyboard.press('j');
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  expect(await focused()).toBe('rack-0002');
  await page.evaluate(() => {
    const load = document.querySelector('main tbody tr td:nth-child(4)')!;
    const times: number[] = [];
    new MutationObserver(() => times.push(performance.now())).observe(load, { characterData: true, subtree: true });
    Object.assign(window, { times });
  });
  // A hundred heartbeats for each frame that the page draws, among them one of the node in its first row.
  let frame = 0;
  let times: number[] = [];
  const [first, ...others] = head.nodes.slice(0, count - lost) as [Node, ...Node[]];
  while (times.length < 4) {
    ++frame;
    for (let one = 0; one < 99; ++one) head.beat({ ...others[(99 * frame + one) % others.length]!, cpu_load: frame });
    head.beat({ ...first, cpu_load: frame });
    times = await page.evaluate(async () => {
      await new Promise(requestAnimationFrame);
      return (window as unknown as { times: number[] }).times;
    });
  }
  await expect(rows(page).first()).toContainText(`${frame}.00 cores`);
  const pauses = times.slice(1).map((time, index) => time - times[index]!);
  expect(Math.min(...pauses), `${times.map(Math.round).join(' ')}`).toBeGreaterThan(500);
  expect(await focused()).toBe('rack-0002');
});

test('two thousand nodes: one that is lost is among the lost, and can be found there', async ({
  page,
  address,
  head,
}) => {
  await page.goto(`${address}/nodes`);
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  await expect(rows(page).first()).toContainText('rack-0000');
  head.publish('node', ['cluster'], Object.assign(head.nodes[0]!, { state: 'lost', reason: 'no heartbeat' }));
  await expect(rows(page).first()).toContainText('rack-0001');
  await expect(rows(page).last()).toContainText('rack-0050');
  await page.getByRole('button', { name: 'Lost' }).click();
  await expect(rows(page).first()).toContainText('no heartbeat');
  await expect(pages(page)).toContainText('of 121');
});

test('two thousand nodes: nothing is wider than a phone', async ({ page, address }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${address}/nodes?page=2`);
  await expect(pages(page)).toContainText('51 to 100 of 2,000');
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
  await picture(page, 'phone-nodes-many');
});
