import { expect, logIn, test } from './fixtures';

test('what no page may do is seen in every tab', async ({ page, address, watch }) => {
  await logIn(page, address);
  const tab = await page.context().newPage();
  await tab.goto(address);
  await expect(tab.getByRole('heading', { name: 'Cluster' })).toBeVisible();
  expect(watch.complaints).toEqual([]);
  const seen = (what: RegExp) => expect.poll(() => watch.complaints.filter((text) => what.test(text))).toHaveLength(1);
  await tab.evaluate(() => {
    queueMicrotask(() => {
      throw new Error('thrown in a tab');
    });
  });
  await seen(/thrown in a tab/);
  await tab.evaluate(() => alert('asked in a tab'));
  await seen(/dialog: asked in a tab/);
  await tab.evaluate(() => console.error('Refused to connect, says the policy'));
  await seen(/^Refused to connect/);
  await tab.route('http://elsewhere.invalid/', (route) => route.abort());
  await tab.goto('http://elsewhere.invalid/').catch(() => {});
  await seen(/request: http:\/\/elsewhere/);
  await tab.close();
  watch.complaints.length = 0; // it was all meant
});
