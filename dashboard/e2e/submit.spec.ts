import { expect, logIn, picture, test } from './fixtures';

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

test('the topology may be left to the workers', async ({ page }) => {
  await page.getByRole('heading', { name: 'Exchange', exact: true }).click();
  await page.getByLabel('Topology').selectOption('auto');
  await expect(page.getByText('measures links and coding and chooses for each bucket')).toBeVisible();
  await expect(page.getByText('with topology auto, the largest size that may be chosen')).toBeVisible();
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
  await page
    .getByLabel('Job spec as JSON')
    .fill('{"model": {"name": "lenet"}, "dataset": {"name": "fashion-mnist"}, "training": {"epoch": 1}}');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page.locator('.faults')).toContainText('/training/epoch is not a known field');
  await expect(page.locator('.faults')).toContainText('epochs');
});

test('a job is submitted once and its page opens', async ({ page, head, address }) => {
  await page.getByRole('textbox', { name: 'Name' }).fill('mine');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('mine');
  await expect(page).toHaveURL(`${address}/jobs/${head.jobs[0]!.id}`);
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
