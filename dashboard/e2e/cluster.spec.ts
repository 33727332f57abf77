import { expect, picture, test } from './fixtures';
import { Weir } from './weir';

/** The whole way through a real cluster, as a newcomer goes it: open the link, submit, watch, stop, submit again. */
test.describe('a real cluster', () => {
  test.describe.configure({ mode: 'serial' });
  test.skip(Weir.missing() !== null, Weir.missing() ?? '');
  let weir: Weir;

  test.beforeAll(async () => {
    weir = await Weir.start();
  });
  test.afterAll(async () => {
    await weir?.stop();
  });
  test.beforeEach(async ({ page }) => {
    await page.goto(await weir.link());
    await expect(page.getByText('Live', { exact: true })).toBeVisible();
  });

  test('shows its nodes and actors', async ({ page }) => {
    await expect(page.getByText('all alive')).toBeVisible();
    await expect(page.locator('.node-alive')).toHaveCount(2);
    await picture(page, 'cluster-overview');
    await page.getByRole('link', { name: 'Nodes', exact: true }).click();
    await expect(page.getByRole('heading', { name: 'Nodes', level: 1 })).toBeVisible();
    await expect(page.locator('tbody tr')).toHaveCount(2);
    await picture(page, 'cluster-nodes');
    await page.getByRole('link', { name: 'Actors', exact: true }).click();
    await expect(page.getByRole('heading', { name: 'Actors', level: 1 })).toBeVisible();
    await expect(page.locator('tbody tr').first()).toBeVisible();
    await picture(page, 'cluster-actors');
  });

  test('refuses what is wrong, at the field', async ({ page }) => {
    await page.getByRole('link', { name: 'Submit a job' }).click();
    await page
      .getByLabel('Job spec as JSON')
      .fill('{"model": {"name": "lenat"}, "dataset": {"name": "fashion-mnist"}, "training": {"epoch": 1}}');
    await page.getByRole('button', { name: 'Validate' }).click();
    await expect(page.locator('.field-wrong')).toContainText('lenet');
    await expect(page.locator('.faults')).toContainText('/training/epoch');
  });

  test('submit, watch, stop, submit again', async ({ page }) => {
    await page.getByRole('link', { name: 'Submit a job' }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill('from the browser');
    await page.getByLabel('Compressor').selectOption('dgc');
    await page.getByLabel(/^Epochs/).fill('500');
    await page.getByLabel(/^Workers/).fill('2');
    await page.getByRole('button', { name: 'Validate' }).click();
    await expect(page.getByText('The spec is valid')).toBeVisible();
    await picture(page, 'cluster-submit');
    await page.getByRole('button', { name: 'Submit', exact: true }).click();

    await expect(page.locator('h1')).toContainText('from the browser');
    await expect(page.locator('h1 .badge')).toContainText('training');
    await expect(page.locator('.chart', { hasText: 'Loss' }).locator('canvas')).toBeVisible();
    await expect(page.locator('.chart', { hasText: 'Traffic' }).locator('.legend')).toContainText(/sent .*[kM]B/);
    await expect(page.getByRole('row', { name: /^1 / })).toContainText(/running/);
    await expect(page.locator('.chart', { hasText: 'accuracy' }).locator('canvas')).toBeVisible();
    await picture(page, 'cluster-job');
    await page.getByRole('button', { name: 'Bytes', exact: true }).click();
    await expect(page.locator('.chart', { hasText: 'Loss' }).locator('canvas')).toBeVisible();
    await page.getByRole('link', { name: 'Logs', exact: true }).click();
    await expect(page.locator('.log-line').first()).toBeVisible();
    await picture(page, 'cluster-logs');

    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Stop the job' }).click();
    await expect(page.locator('h1 .badge')).toHaveText('STOPPED');
    await page.getByRole('link', { name: /^Checkpoints/ }).click();
    const download = page.waitForEvent('download');
    await page
      .getByRole('link', { name: /^step-\d+\.safetensors/ })
      .first()
      .click();
    expect((await download).suggestedFilename()).toMatch(/\.safetensors$/);

    await page.getByRole('link', { name: 'Resubmit' }).click();
    await expect(page.getByLabel('Compressor')).toHaveValue('dgc');
    await page.getByText('More training settings').click();
    await page.getByLabel(/^Max steps/).fill('12');
    await page.getByRole('button', { name: 'Submit', exact: true }).click();
    await expect(page.locator('h1 .badge')).toHaveText('SUCCEEDED');
    await expect(page.locator('.stats')).toContainText('12 of 12');
    await picture(page, 'cluster-job-succeeded');
    await page.getByRole('link', { name: /^Events/ }).click();
    await expect(page.locator('.event').first()).toBeVisible();
    await picture(page, 'cluster-events');

    await page.getByRole('link', { name: 'Jobs', exact: true }).first().click();
    await expect(page.getByRole('link', { name: 'from the browser', exact: true })).toHaveCount(2);
    await picture(page, 'cluster-jobs');
  });

  test('a job that has ended can be deleted', async ({ page }) => {
    await page.goto(`${weir.address}/jobs?state=STOPPED`);
    await page.getByRole('link', { name: 'from the browser', exact: true }).click();
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete for ever' }).click();
    await expect(page).toHaveURL(`${weir.address}/jobs`);
    await expect(page.getByRole('link', { name: 'from the browser', exact: true })).toHaveCount(1);
  });

  test('asks who you are without a session, and takes the token', async ({ page }) => {
    await page.context().clearCookies();
    await page.goto(`${weir.address}/jobs`);
    await page.getByRole('textbox', { name: 'Token' }).fill(weir.token);
    await page.getByRole('button', { name: 'Log in' }).click();
    await expect(page.locator('tbody tr').first()).toBeVisible();
  });
});
