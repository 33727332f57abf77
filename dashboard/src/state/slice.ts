/** Rows of a page of a list that is known as a whole. */
export const rowsMax = 50;

export interface Slice<T> {
  rows: readonly T[];
  /** Its number, from 1. */
  page: number;
  pages: number;
  /** Rows of all pages. */
  total: number;
}

/** The page that a URL asks for: the last one if there are fewer by now, the first one for anything but a number. */
export function sliceOf<T>(all: readonly T[], asked: string | null): Slice<T> {
  const pages = Math.max(1, Math.ceil(all.length / rowsMax));
  const page = Math.min(pages, /^[1-9]\d*$/.test(asked ?? '') ? Number(asked) : 1);
  return { rows: all.slice((page - 1) * rowsMax, page * rowsMax), page, pages, total: all.length };
}
