import type { Route } from '@playwright/test';
import { hostileName } from './mock/data';
import { expect, expectAccessible, openLink, picture, test } from './fixtures';

test.beforeEach(({ page, address }) => openLink(page, address));

test('overview: every number leads to its list', async ({ page, address }) => {
  await expect(page.getByRole('link', { name: /Actors 5/ })).toBeVisible();
  await expect(page.getByText('1 lost')).toBeVisible();
  await expect(page.locator('.state-tile', { hasText: 'FAILED' })).toContainText(/1,66\d/);
  await picture(page, 'overview');
  await page.locator('.state-tile', { hasText: 'FAILED' }).click();
  await expect(page).toHaveURL(`${address}/jobs?state=FAILED`);
});

test('overview: follows the stream', async ({ page, head }) => {
  await expect(page.locator('.state-tile', { hasText: 'RUNNING' })).toContainText('1');
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  head.setState('job-wait', 'RUNNING', { phase: 'training' });
  await expect(page.locator('.state-tile', { hasText: 'RUNNING' })).toContainText('2');
  await expect(page.locator('.state-tile', { hasText: 'PENDING' })).toContainText('0');
  head.publish('event', ['cluster'], { ...head.events[0]!, id: 77, job: null, message: 'something new' });
  await expect(page.getByText('something new')).toBeVisible();
});

test('overview: each part says itself that it could not be read', async ({ page }) => {
  const parts = ['jobs', 'nodes', 'events', 'actors'];
  for (const part of parts) {
    const body = JSON.stringify({ type: 'about:blank', title: `No ${part} today`, detail: `no ${part}`, status: 500 });
    const fail = (route: Route) => route.fulfill({ status: 500, contentType: 'application/problem+json', body });
    await page.route(`**/api/v1/${part}?*`, fail);
  }
  await page.reload();
  const heading = (title: string) => page.getByRole('heading', { name: title, exact: true });
  const card = (title: string) => page.locator('.card', { has: heading(title) });
  for (const [title, part] of [
    ['Jobs by state', 'jobs'],
    ['Newest jobs', 'jobs'],
    ['Nodes', 'nodes'],
    ['What happened to nodes', 'events'],
  ] as const) {
    await expect(card(title).getByRole('alert')).toContainText(`No ${part} today`);
    await expect(card(title).getByRole('status')).toHaveCount(0);
  }
  const actors = page.locator('.stat', { hasText: 'Actors' });
  await expect(actors).toContainText('no actors');
  await page.unrouteAll();
  await card('What happened to nodes').getByRole('button', { name: 'Try again' }).click();
  await expect(card('What happened to nodes')).toContainText('node n3 joined');
  await expect(actors).toContainText('head and workers');
  await expect(page.getByRole('alert')).toHaveCount(0);
});

test('overview: says when the head is open to the network', async ({ page, head }) => {
  head.insecure = true;
  await page.reload();
  await expect(page.getByText('without TLS')).toBeVisible();
});

test('nodes: load, heartbeat, drain', async ({ page, address, head }) => {
  await page.goto(`${address}/nodes`);
  await expect(page.getByRole('row', { name: /n3/ })).toContainText('lost');
  await picture(page, 'nodes');
  await page.getByRole('row', { name: /n1/ }).getByRole('button', { name: 'Drain' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
  await expect(page.getByRole('row', { name: /n1/ })).toContainText('draining');
  expect(head.nodes[0]!.state).toBe('draining');
  await page.goto(address);
  await expect(page.getByRole('link', { name: /^Nodes 2/ })).toHaveText(/1 lost, 1 draining/);
  await page.goto(`${address}/nodes`);
  await page.getByRole('row', { name: /n1/ }).getByRole('button', { name: 'Undo drain' }).click();
  await expect(page.getByRole('row', { name: /n1/ })).toContainText('alive');
  await expect(page.getByRole('row', { name: /n1/ }).getByRole('button', { name: 'Drain' })).toBeEnabled();
  expect(head.nodes[0]!.state).toBe('alive');
});

test('nodes: a lost one is forgotten, here or elsewhere', async ({ page, address, head }) => {
  await page.goto(`${address}/nodes`);
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  const row = (name: RegExp) => page.getByRole('row', { name });
  await expect(row(/n3/)).toContainText('lost'); // the list has been read
  await expect(row(/n1/).getByRole('button', { name: 'Forget' })).toHaveCount(0);
  const forget = async () => {
    await row(/n3/).getByRole('button', { name: 'Forget' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Forget' }).click();
  };
  const n3 = head.nodes[2]!;
  n3.state = 'alive'; // it has joined again, and nobody here knows it yet
  await forget();
  const alert = page.getByRole('alert');
  await expect(alert).toContainText('node n3 is alive');
  await row(/n3/).getByRole('button', { name: 'Forget' }).click();
  await expect(page.locator('.error')).toHaveCount(0); // it is asked for anew
  await page.getByRole('dialog').getByRole('button', { name: 'Forget' }).click();
  await expect(alert).toContainText('node n3 is alive');
  n3.state = 'lost';
  await alert.getByRole('button', { name: 'Dismiss' }).click();
  await expect(alert).toHaveCount(0);
  await forget();
  await expect(row(/n3/)).toHaveCount(0);
  await expect(page.getByRole('alert')).toHaveCount(0);
  expect(head.nodes.map(({ name }) => name)).toEqual(['n1', 'n2']);
  head.publish('node', ['cluster'], Object.assign(head.nodes[0]!, { state: 'lost' }));
  await expect(row(/n1/)).toContainText('lost');
  head.removeNode(head.nodes[0]!);
  await expect(row(/n1/)).toHaveCount(0);
  await page.goto(address);
  await expect(page.getByRole('link', { name: /^Nodes 1/ })).toHaveText(/all alive/);
});

test('nodes: none that matches is another thing than none', async ({ page, address, head }) => {
  await page.goto(`${address}/nodes?q=n9`);
  await expect(page.getByText('No node matches')).toBeVisible();
  const search = page.getByRole('searchbox', { name: 'Find a node' });
  await expect(search).toHaveValue('n9');
  await search.fill('N1');
  await expect(page).toHaveURL(`${address}/nodes?q=N1`);
  await expect(page.getByRole('row', { name: /n1/ })).toBeVisible();
  await expect(page.getByRole('row', { name: /n2/ })).toHaveCount(0);
  await search.press('Escape');
  await expect(search).not.toBeFocused();
  await expect(search).toHaveValue('N1');
  await search.fill('');
  await expect(page.getByRole('row', { name: /n2/ }).first()).toBeVisible();
  head.nodes.length = 0;
  await page.reload();
  await expect(page.getByText('No node', { exact: true })).toBeVisible();
  await expect(page.getByText('with a copy of the file node_secret')).toBeVisible();
  await picture(page, 'nodes-none');
});

test('nodes: a lost one sends nothing', async ({ page, address, head }) => {
  await page.goto(`${address}/nodes`);
  const row = page.getByRole('row', { name: /n1/ });
  await expect(page.getByText('Live', { exact: true })).toBeVisible();
  await expect(row).toBeVisible(); // a rate is the difference of two heartbeats: the first is in the list
  const [node] = head.nodes as [(typeof head.nodes)[0]];
  const told = (change: Partial<typeof node>) => head.publish('node', ['cluster'], Object.assign(node, change));
  const at = Date.parse(node.last_heartbeat_at!);
  told({ last_heartbeat_at: new Date(at + 1000).toISOString(), network_sent_bytes: node.network_sent_bytes! + 5000 });
  await expect(row).toContainText('↑ 5.0 kB/s');
  told({ state: 'lost' });
  await expect(row).toContainText('lost');
  await expect(row).toContainText('↑ –');
});

test('nodes: GPUs, who has booked them, and what is not known of them', async ({ page, address }) => {
  await page.goto(`${address}/nodes?q=n2`);
  const first = page.getByRole('row', { name: /GPU-5f3c0001/ });
  await expect(first).toContainText('NVIDIA H200');
  await expect(first).toContainText('43.0 %');
  await expect(first).toContainText('60.2 GB of 151 GB');
  await expect(first).toContainText('513 W');
  await expect(first).toContainText('61 °C');
  await expect(first).toContainText('none');
  await expect(first.getByRole('link', { name: 'rank 1' })).toHaveAttribute('href', '/jobs/job-run');
  const second = page.getByRole('row', { name: /GPU-5f3c0002/ });
  await expect(second).toContainText('lost');
  await expect(second).toContainText('free');
  await expect(second.getByRole('cell', { name: 'unknown', exact: true })).toHaveCount(4);
  await expect(second).toContainText('unknown of 151 GB');
  await page.goto(`${address}/nodes?q=n1`);
  await expect(page.getByRole('row', { name: /n1/ })).toBeVisible();
  await expect(page.getByRole('region', { name: 'GPUs' })).toHaveCount(0);
});

test('actors', async ({ page, address }) => {
  await page.goto(`${address}/actors`);
  const figures = page.getByRole('row', { name: /w-3\/trainer/ }).locator('.num');
  await expect(figures).toHaveText(['–', '–']); // nobody counts them there: not zero
  await picture(page, 'actors');
  await page.keyboard.press('/');
  await page.keyboard.type('w-2/');
  await expect(page).toHaveURL(`${address}/actors?q=w-2%2F`);
  await expect(page.locator('tbody tr')).toHaveText([/^w-2\/trainer/]);
  await page.getByRole('searchbox', { name: 'Find an actor' }).fill('w-7');
  await expect(page.getByText('No actor matches')).toBeVisible();
});

test('jobs: ten thousand of them, paged, filtered and searched, all in the URL', async ({ page, address, head }) => {
  await page.goto(`${address}/jobs`);
  await expect(page.locator('tbody tr')).toHaveCount(50);
  await picture(page, 'jobs');
  await page.getByRole('button', { name: 'Older' }).click();
  await expect(page).toHaveURL(/cursor=50/);
  await expect(page.getByRole('link', { name: 'sweep-9950', exact: true })).toBeVisible();
  await page.reload();
  await expect(page.getByRole('link', { name: 'sweep-9950', exact: true })).toBeVisible();
  await page.getByRole('button', { name: 'Newer' }).click();
  await expect(page.getByRole('link', { name: 'lenet-dgc', exact: true })).toBeVisible();
  await page.getByRole('button', { name: 'Failed' }).click();
  await expect(page).toHaveURL(`${address}/jobs?state=FAILED`);
  await expect(page.locator('tbody .badge').first()).toHaveText('FAILED');
  await page.keyboard.press('/');
  await page.keyboard.type('topk');
  await expect(page).toHaveURL(/q=topk/);
  await expect(page.locator('tbody tr')).toHaveCount(1);
  const lists = head.requests.filter((request) => /^GET \/api\/v1\/jobs(\?|$)/.test(request));
  expect(lists).not.toEqual([]);
  expect(lists.filter((request) => !/limit=/.test(request))).toEqual([]);
});

test('jobs: a search begins at its first page', async ({ page, address }) => {
  await page.goto(`${address}/jobs`);
  await page.getByRole('button', { name: 'Older' }).click();
  await expect(page).toHaveURL(`${address}/jobs?cursor=50&before=-`);
  await page.keyboard.press('/');
  await page.keyboard.type('sweep');
  await expect(page).toHaveURL(`${address}/jobs?q=sweep`);
});

test('jobs: a search of two words can be corrected key by key', async ({ page, address }) => {
  await page.goto(`${address}/jobs`);
  const search = page.getByRole('searchbox', { name: 'Search jobs' });
  await search.pressSequentially('my ran');
  await search.press('Backspace');
  await search.press('Backspace');
  await search.press('Backspace');
  await expect(page).toHaveURL(`${address}/jobs?q=my`);
  await search.pressSequentially('run');
  await expect(search).toHaveValue('my run');
  await expect(page).toHaveURL(`${address}/jobs?q=my+run`);
});

test('jobs: a name is text, whatever is in it', async ({ page, address }) => {
  await page.goto(`${address}/jobs`);
  await expect(page.getByRole('link', { name: hostileName, exact: true })).toBeVisible();
  await expect(page.locator('main img')).toHaveCount(0);
  await page.goto(`${address}/jobs/job-wait`);
  await expect(page.getByRole('heading', { level: 1 })).toContainText(hostileName);
  await expect(page.getByText('it would fit with 8 workers')).toBeVisible();
  await picture(page, 'job-pending');
});

test('a job that does not exist, a page that does not exist', async ({ page, address }) => {
  await page.goto(`${address}/jobs/nope`);
  await expect(page.getByText('There is no job nope')).toBeVisible();
  await expect(page.getByText('Disconnected')).toHaveCount(0); // nor in a banner, if the head was slow
  await page.goto(`${address}/nope`);
  await expect(page.getByText('There is no such page')).toBeVisible();
});

test('a page with a script of its own has its name before that has come', async ({ page }) => {
  let answer = () => {};
  const held = new Promise<void>((resolve) => (answer = resolve));
  await page.route('**/assets/submit-*.js', async (route) => {
    await held;
    await route.continue();
  });
  await page.getByRole('link', { name: 'Submit a job' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Submit a job');
  await expect(page).toHaveTitle('Submit a job · weir');
  await expect(page.getByLabel('Model')).toHaveCount(0);
  answer();
  await expect(page.getByLabel('Model')).toBeVisible();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('Submit a job');
});

test('login: the token opens it, an expired session closes it', async ({ page, address, head }) => {
  await page.context().clearCookies();
  await page.goto(`${address}/jobs`);
  await expect(page.getByRole('textbox', { name: 'Token' })).toBeVisible();
  await expect(page.locator('.command')).toHaveText(['weir token link', 'weir token show']);
  await picture(page, 'login');
  await page.getByRole('textbox', { name: 'Token' }).fill('wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.getByRole('alert')).toContainText('req-7');
  await page.getByRole('textbox', { name: 'Token' }).fill('mock-token');
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(page.locator('tbody tr')).toHaveCount(50);
  await page.locator('tbody a').first().focus();
  head.expired = true;
  head.cut();
  await expect(page.getByRole('textbox', { name: 'Token' })).toBeFocused();
});

test('logging out: a failure is told, and the page stays', async ({ page, address }) => {
  const body = JSON.stringify({ title: 'Internal error', detail: 'the store is full', status: 500 });
  await page.route('**/api/v1/session', (route) =>
    route.fulfill({ status: 500, contentType: 'application/problem+json', body }),
  );
  await page.goto(`${address}/jobs`);
  const logOut = page.getByRole('button', { name: 'Log out' });
  await logOut.click();
  const alert = page.getByRole('alert');
  await expect(alert).toContainText('Could not log out: the store is full');
  await expect(page.locator('tbody tr')).toHaveCount(50);
  await expectAccessible(page);
  await alert.getByRole('button', { name: 'Dismiss' }).click();
  await expect(alert).toHaveCount(0);
  await page.unrouteAll();
  await logOut.click();
  await expect(page.getByRole('textbox', { name: 'Token' })).toBeVisible();
});

test('keyboard: everywhere without a mouse', async ({ page, address }) => {
  await expect(page.getByRole('heading', { name: 'Cluster' })).toBeVisible();
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog')).toContainText('Submit a job');
  await picture(page, 'help');
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toBeHidden();
  await page.keyboard.press('g');
  await page.keyboard.press('j');
  await expect(page).toHaveURL(`${address}/jobs`);
  await expect(page.locator('tbody tr')).toHaveCount(50);
  const row = () => page.evaluate(() => document.activeElement?.closest('[data-row]')?.querySelector('a')?.textContent);
  const link = () => page.evaluate(() => document.activeElement?.textContent);
  for (const [key, name] of [
    ['j', 'lenet-dgc'],
    ['j', hostileName],
    ['j', 'lenet-topk'],
    ['j', 'sweep-10000'],
    ['k', 'lenet-topk'],
    ['k', hostileName],
  ] as const) {
    await page.keyboard.press(key);
    expect([await row(), await link()], 'one stop for each row').toEqual([name, name]);
  }
  await page.keyboard.press('Tab'); // to the row's other link
  expect(await row()).toBe(hostileName);
  await page.keyboard.press('k');
  expect(await link()).toBe('lenet-dgc');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(`${address}/jobs/job-run`);
  await expect(page.getByRole('main')).toBeFocused(); // the link that had the focus is gone
  await page.keyboard.press('g');
  await page.keyboard.press('o');
  await expect(page).toHaveURL(`${address}/`);
});

test('the theme is remembered', async ({ page }) => {
  await page.getByRole('button', { name: /^Theme/ }).click();
  await page.getByRole('button', { name: /^Theme/ }).click();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
  await page.reload();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
});
