import { expect, it } from 'vitest';
import { rowsMax, sliceOf } from './slice';

const all = Array.from({ length: 2 * rowsMax + 1 }, (_, index) => index);

it('a page has its rows, the last one what is left', () => {
  expect(sliceOf(all, '2')).toEqual({ rows: all.slice(rowsMax, 2 * rowsMax), page: 2, pages: 3, total: all.length });
  expect(sliceOf(all, '3').rows).toEqual([2 * rowsMax]);
  expect(sliceOf(all.slice(0, rowsMax), null)).toMatchObject({ page: 1, pages: 1 });
});

it('a page that is not there is the last one, and what is no number is the first', () => {
  expect(sliceOf(all, '9').page).toBe(3);
  expect(sliceOf([], '9')).toEqual({ rows: [], page: 1, pages: 1, total: 0 });
  for (const asked of [null, '', '0', '-1', '1.5', 'two', '1e3']) expect(sliceOf(all, asked).page, `${asked}`).toBe(1);
});
