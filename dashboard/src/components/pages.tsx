import { count } from '../format';
import { setQuery } from '../router';
import { rowsMax, type Slice } from '../state/slice';

/** The way from page to page of a list that is known as a whole; `parameter` of the URL has the number of the page. */
export function Pages({ of, label, parameter }: { of: Slice<unknown>; label: string; parameter: string }) {
  const { page, pages, rows, total } = of;
  if (pages === 1) return null;
  const first = (page - 1) * rowsMax + 1;
  const go = (to: number) => setQuery({ [parameter]: to === 1 ? null : String(to) });
  return (
    <nav class="pages" aria-label={label}>
      <span class="faint">
        {count(first)} to {count(first + rows.length - 1)} of {count(total)}
      </span>
      <button type="button" disabled={page === 1} onClick={() => go(page - 1)}>
        Previous
      </button>
      <button type="button" disabled={page === pages} onClick={() => go(page + 1)}>
        Next
      </button>
    </nav>
  );
}
