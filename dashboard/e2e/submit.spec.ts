import { getAt } from '../src/forms/pointer';
import { expect, expectAccessible, logIn, picture, test } from './fixtures';

test.beforeEach(async ({ page, address }) => {
  await logIn(page, address);
  await page.goto(`${address}/submit`);
  await expect(page.getByLabel('Model')).toBeVisible();
});

test('form and JSON are one spec', async ({ page }) => {
  const text = page.getByLabel('Job spec as JSON');
  await page.getByLabel('Compressor').selectOption('dgc');
  await page.getByLabel(/^Ratio/).fill('0.01');
  await expect
    .poll(async () => JSON.parse(await text.inputValue()).compression)
    .toEqual({ name: 'dgc', params: { ratio: 0.01 } });
  await picture(page, 'submit');
  await page.getByLabel('Compressor').selectOption('topk');
  await expect.poll(async () => JSON.parse(await text.inputValue()).compression).toEqual({ name: 'topk' });
  await expect(page.getByLabel(/^Ratio/)).toHaveAttribute('placeholder', '0.01');
  await text.fill('{"model": {"name": "mlp", "params": {"hidden": 32}}, "dataset": {"name": "fashion-mnist"}}');
  await expect(page.getByLabel(/^Hidden/)).toHaveValue('32');
  await text.fill('{"model": ');
  await expect(page.getByRole('button', { name: 'Submit', exact: true })).toBeDisabled();
  await expect(page.getByLabel('Model')).toBeDisabled();
});

test('a number or a name typed key by key is the one that was typed', async ({ page }) => {
  const spec = async () => JSON.parse(await page.getByLabel('Job spec as JSON').inputValue());
  await page.getByLabel('Compressor').selectOption('dgc');
  for (const [label, typed, at] of [
    [/^Ratio/, '0.0005', '/compression/params/ratio'],
    [/^Warmup epochs/, '0.25', '/compression/params/warmup_epochs'],
    [/^Learning rate/, '2.50e-1', '/training/optimizer/lr'],
  ] as const) {
    const field = page.getByLabel(label).first();
    await field.pressSequentially(typed);
    await expect(field).toHaveValue(typed);
    expect(getAt(await spec(), at)).toBe(Number(typed));
  }
  const name = page.getByRole('textbox', { name: 'Name' });
  await name.fill('');
  await name.pressSequentially('my run');
  await expect(name).toHaveValue('my run');
  expect((await spec()).name).toBe('my run');
});

test('what cannot be a value is told at once', async ({ page }) => {
  await page.getByLabel(/^Epochs/).fill('many');
  await expect(page.getByText('is not a number')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Submit', exact: true })).toBeDisabled();
  await page.getByLabel(/^Epochs/).fill('0');
  await expect(page.getByText(/must be > 0/)).toBeVisible();
});

test('validate shows placement, bytes and the whole spec', async ({ page }) => {
  await page.getByLabel(/^Workers/).fill('4');
  await page.getByRole('button', { name: 'Validate' }).click();
  await expect(page.getByText('The spec is valid')).toBeVisible();
  await expect(page.getByText('1.5 kB')).toBeVisible();
  await expect(page.getByText('rank 0, 1')).toBeVisible();
  await expect(page.getByRole('note')).toContainText('/compression/params/ratio: at a ratio of 0.001');
  await page.getByText('Normalized spec').click();
  await expect(page.locator('pre')).toContainText('"batch_size": 64');
  await picture(page, 'submit-validated');
});

test('what does not fit the mode is greyed out, with the reason', async ({ page }) => {
  const compressor = page.getByLabel('Compressor');
  await expect(compressor.locator('option', { hasText: 'dgc' })).toBeEnabled();
  await expect(page.getByText('Per server', { exact: true })).toHaveCount(0);
  await page.getByText('More training settings').click();
  await page.getByLabel('Mode', { exact: true }).selectOption('backup');
  await expect(page.getByLabel(/^Backup workers/)).toHaveAttribute('placeholder', '1');
  await expect(page.getByText('Gradients dropped in each step')).toBeVisible();
  await expect(page.getByText('Per server', { exact: true })).toHaveCount(1);
  await expect(compressor.locator('option', { hasText: 'dgc (does not fit)' })).toBeDisabled();
  const field = page.locator('.field', { has: compressor });
  await field.getByText('1 does not fit').click();
  await expect(field).toContainText('dgc: it keeps state of all payloads');
  await page.evaluate(() => scrollTo(0, 0)); // from under the header
  await picture(page, 'submit-misfits');

  await page.getByLabel(/^Workers/).fill('3');
  await page.getByLabel(/^Servers/).fill('2');
  await page.getByRole('button', { name: 'Validate' }).click();
  await expect(page.locator('.placement li')).toHaveText(['n1 rank 0, 1', 'n2 rank 2, server 0', 'n3 server 1']);

  // What was chosen before and fits no more is told at its field.
  await page.getByLabel('Mode', { exact: true }).selectOption('sync');
  await compressor.selectOption('dgc');
  await expect(page.locator('.field-wrong')).toHaveCount(0);
  await page.getByLabel('Mode', { exact: true }).selectOption('backup');
  await expect(page.locator('.field-wrong')).toContainText('dgc does not fit: it keeps state of all payloads');
});

test('settings of the training that do not fit the compression are greyed out, with the reason', async ({ page }) => {
  const faults = page.locator('.field-wrong');
  const compressor = page.getByLabel('Compressor');
  const optimizer = page.getByLabel('Optimizer', { exact: true });
  await page.getByText('More training settings').click();
  await optimizer.selectOption('adam');
  await expect(faults).toHaveCount(0);
  await compressor.selectOption('dgc');
  await expect(faults).toContainText('adam does not fit: it keeps moments of its own, and the memory dgc');
  await optimizer.selectOption('sgd');
  await expect(faults).toHaveCount(0);
  await expect(optimizer.locator('option', { hasText: 'adam (does not fit)' })).toBeDisabled();

  const global = page.getByLabel('Clip where', { exact: true }).locator('option', { hasText: 'global' });
  await expect(global).toBeEnabled();
  await page.getByLabel(/^Clip norm/).fill('1');
  await expect(global).toHaveText('global (does not fit)');
  await expect(global).toBeDisabled();
  await compressor.selectOption('topk');
  await expect(global).toBeEnabled();

  await page.getByRole('heading', { name: 'Exchange', exact: true }).click();
  await expect(page.getByLabel(/^Bucket bytes/)).toBeEnabled();
  await page.getByLabel('Mode', { exact: true }).selectOption('backup');
  await expect(page.getByLabel(/^Bucket bytes/)).toBeDisabled();
  await expect(page.getByText('Not to be set here: workers of the mode backup push each tensor')).toBeVisible();
});

test('the topology may be left to the workers', async ({ page }) => {
  await page.getByRole('heading', { name: 'Exchange', exact: true }).click();
  await page.getByLabel('Topology').selectOption('auto');
  await expect(page.getByText('measures links and coding and chooses for each bucket')).toBeVisible();
  await expect(page.getByText('with topology auto, the size to begin with')).toBeVisible();
  await page.getByRole('button', { name: 'Validate' }).click();
  await expect(page.getByText('The spec is valid')).toBeVisible();
  await expect(page.locator('.stat').first()).toHaveText(/round–not known before/);
});

test('what the head refuses stands at its field', async ({ page }) => {
  await page.getByLabel(/^Workers/).fill('13');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page.locator('.field-wrong')).toContainText('must be at most 12 here');
  await expect(page.getByRole('alert')).toContainText('Request req-7');
  await picture(page, 'submit-refused');
  await page.getByLabel(/^Workers/).fill('12');
  await expect(page.locator('.field-wrong')).toHaveCount(0);
  await expect(page.getByRole('alert')).toHaveCount(0);
  await page
    .getByLabel('Job spec as JSON')
    .fill('{"model": {"name": "lenet"}, "dataset": {"name": "fashion-mnist"}, "training": {"epoch": 1}}');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page.locator('.faults')).toContainText('/training/epoch is not a known field');
  await expect(page.locator('.faults')).toContainText('epochs');
});

test('what was typed is there again after a look elsewhere', async ({ page, address }) => {
  const name = page.getByRole('textbox', { name: 'Name' });
  await name.fill('mine');
  await page.getByRole('button', { name: 'Validate' }).click();
  await expect(page.getByText('The spec is valid')).toBeVisible();
  await page.getByRole('link', { name: 'Nodes', exact: true }).click();
  await expect(page.getByRole('heading', { name: 'Nodes', exact: true })).toBeVisible();
  await page.goBack();
  await expect(name).toHaveValue('mine');
  await expect(page.getByText('The spec is valid'), 'that was then').toHaveCount(0);
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('mine');
  await page.goBack();
  await expect(page).toHaveURL(`${address}/submit`);
  await expect(name).not.toHaveValue('mine');
});

test('the form can be started over, and does not outlive the session', async ({ page, head }) => {
  const name = page.getByRole('textbox', { name: 'Name' });
  const usual = await name.inputValue();
  const catalogs = () => head.requests.filter((request) => request.endsWith('/catalog')).length;
  expect(catalogs()).toBe(1);
  await name.fill('mine');
  await page.getByRole('button', { name: 'Start over' }).click();
  await expect(name).toHaveValue(usual);
  expect(catalogs(), 'what there is to choose from is read anew').toBe(2);
  await name.fill('mine');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('textbox', { name: 'Token' }).fill('mock-token');
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect(name).toHaveValue(usual);
});

test('whoever leaves before a job is submitted stays where they went', async ({ page, head, address }) => {
  let answer = () => {};
  const held = new Promise<void>((resolve) => (answer = resolve));
  await page.route('**/api/v1/jobs', async (route) => {
    await held;
    await route.continue();
  });
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await page.getByRole('link', { name: 'Nodes', exact: true }).click();
  await expect(page).toHaveURL(`${address}/nodes`);
  const answered = page.waitForResponse((response) => response.request().method() === 'POST');
  answer();
  await answered;
  await page.evaluate(() => fetch('/api/v1/version').then(() => {})); // the page has seen the answer by then
  expect(head.requests).toContain('POST /api/v1/jobs');
  await expect(page).toHaveURL(`${address}/nodes`);
});

test('a job is submitted once and its page opens', async ({ page, head, address }) => {
  await page.getByRole('textbox', { name: 'Name' }).fill('mine');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('mine');
  await expect(page).toHaveURL(`${address}/jobs/${head.jobs[0]!.id}`);
  await expect(page.getByRole('note')).toContainText('/compression/params/ratio: at a ratio of 0.001');
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Dismiss' }).click();
  await expect(page.getByRole('note')).toHaveCount(0);
  expect(head.requests.filter((request) => request === 'POST /api/v1/jobs')).toHaveLength(1);
});

test('again, from an earlier job or one of its checkpoints', async ({ page, address }) => {
  await page.goto(`${address}/jobs/job-fail`);
  await page.getByRole('link', { name: 'Resubmit' }).click();
  await expect(page.getByLabel('Compressor')).toHaveValue('dgc');
  await page.goto(`${address}/jobs/job-fail?tab=checkpoints`);
  await page.getByRole('link', { name: 'resume from here' }).first().click();
  await expect
    .poll(async () => JSON.parse(await page.getByLabel('Job spec as JSON').inputValue()).checkpoint)
    .toEqual({ resume_from: { job: 'job-fail', step: 250 } });
});
