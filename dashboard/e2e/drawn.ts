import { expect, type Page } from '@playwright/test';

/** [x, min, max, last], as the API gives a point of a series. */
export type Point = [number, number | null, number | null, number | null];

/** Which of the API's series each line of each chart shows: written down here once more, so that a mix-up is seen. */
export const lines: Record<string, Record<string, string>> = {
  Loss: { training: 'loss', test: 'test_loss' },
  'Test accuracy': { accuracy: 'accuracy' },
  'Throughput, samples/s': { 'samples/s': 'samples_per_second' },
  'Traffic, cumulative': { sent: 'bytes_sent', 'dense ring': 'bytes_dense' },
  'Time per step, by phase': {
    compute: 'compute_seconds',
    encode: 'encode_seconds',
    exchange: 'exchange_seconds',
    decode: 'decode_seconds',
    wait: 'wait_seconds',
  },
  'Compression ratio': { 'dense / sent': 'compression_ratio' },
};

export function chart(page: Page, title: string) {
  return page.locator('.chart').filter({ has: page.getByRole('heading', { name: title, exact: true }) });
}

/** What the legend says of each line, with every digit; null where it says nothing. */
export function legend(page: Page, title: string): Promise<Record<string, number | null>> {
  return chart(page, title).evaluate((figure) =>
    Object.fromEntries(
      [...figure.querySelectorAll('.legend li')].map((item) => {
        const value = item.querySelector('data')?.value;
        const label = [...item.childNodes].find((node) => node.nodeType === Node.TEXT_NODE)?.textContent ?? '';
        return [label.trim(), value === undefined ? null : Number(value)];
      }),
    ),
  );
}

/** The newest 100 points of each line of a chart, oldest first, from its table. */
export async function table(page: Page, title: string): Promise<Record<string, Point[]>> {
  const details = chart(page, title).locator('details.chart-table');
  if ((await details.getAttribute('open')) === null) await details.locator('summary').click();
  await expect(details.locator('tbody tr').first()).toBeVisible();
  return details.evaluate((element) => {
    const labels = [...element.querySelectorAll('th')].slice(1).map((cell) => cell.textContent ?? '');
    const columns: Record<string, Point[]> = Object.fromEntries(labels.map((label) => [label, []]));
    for (const row of [...element.querySelectorAll('tbody tr')].reverse()) {
      const [x, ...cells] = [...row.children].map((cell) => [...cell.querySelectorAll('data')].map((one) => one.value));
      for (const [index, cell] of cells.entries()) {
        if (cell.length === 0) continue;
        const [last, min = last, max = last] = cell.map(Number);
        columns[labels[index]!]!.push([Number(x![0]), min!, max!, last!]);
      }
    }
    return columns;
  });
}

/** Closes the table of a chart, which takes room, and is made anew with each point that comes. */
export async function fold(page: Page, title: string): Promise<void> {
  await chart(page, title).locator('details.chart-table[open] summary').click();
}

/** A line as it is painted: its colour in the legend, and where its point stands under the pointer. */
export interface Mark {
  label: string;
  value: number;
  y: number;
}

/**
 * Points at a place of a chart (0 is its left end, 1 its right end) and gives what is painted there: uPlot puts a dot
 * on each line, in the line's colour, which the legend tells the name of.
 */
export async function marks(page: Page, title: string, place: number): Promise<Mark[]> {
  const plot = chart(page, title).locator('.u-over');
  await plot.scrollIntoViewIfNeeded();
  const box = (await plot.boundingBox())!;
  await page.mouse.move(box.x + box.width * place, box.y + box.height / 2);
  await expect(chart(page, title).locator('.chart-x')).not.toBeEmpty();
  const values = await legend(page, title);
  const dots = await chart(page, title).evaluate((figure) => {
    const names = new Map<string, string>();
    for (const item of figure.querySelectorAll('.legend li')) {
      const label = [...item.childNodes].find((node) => node.nodeType === Node.TEXT_NODE)?.textContent ?? '';
      const line = item.querySelector('line')!;
      names.set(getComputedStyle(line).stroke, label.trim());
    }
    return [...figure.querySelectorAll<HTMLElement>('.u-cursor-pt')].flatMap((dot) => {
      const { backgroundColor } = getComputedStyle(dot);
      const label = names.get(backgroundColor);
      const { top, height } = dot.getBoundingClientRect();
      return label === undefined || height === 0 ? [] : [{ label, y: top + height / 2 }];
    });
  });
  return dots.map(({ label, y }) => ({ label, y, value: values[label] ?? NaN }));
}
