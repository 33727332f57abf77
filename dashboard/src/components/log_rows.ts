/** Where lines stand in a long list of which only a window is ever in the document. */
export interface Layout {
  /** Top of each line in rows, and one more for the end. */
  tops: Uint32Array;
  rows: number;
}

/** With `columns`, a line takes as many rows as it needs at that width; without, one. */
export function layout(lengths: readonly number[], columns: number | null): Layout {
  const tops = new Uint32Array(lengths.length + 1);
  let top = 0;
  for (const [index, length] of lengths.entries()) {
    tops[index] = top;
    top += columns === null ? 1 : Math.max(1, Math.ceil(length / columns));
  }
  tops[lengths.length] = top;
  return { tops, rows: top };
}

/** The lines [from, to) that touch the rows [top, bottom). */
export function visible({ tops }: Layout, top: number, bottom: number): [from: number, to: number] {
  const count = tops.length - 1;
  const first = (row: number) => {
    let low = 0;
    let high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tops[middle + 1]! <= row) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const from = first(top);
  return [from, Math.min(count, first(Math.max(0, bottom - 1)) + 1)];
}

/** Positions of lines that contain the text, ignoring case. */
export function findLines(lines: readonly { text: string }[], text: string): number[] {
  if (text === '') return [];
  const wanted = text.toLowerCase();
  const found: number[] = [];
  for (const [index, line] of lines.entries()) if (line.text.toLowerCase().includes(wanted)) found.push(index);
  return found;
}

/** Which of `count` matches to go to from `at`. While the end of the log is followed, that one is still to be seen. */
export function nextMatch(at: number, by: number, count: number, following: boolean): number {
  return following ? Math.min(at, count - 1) : (at + by + count) % count;
}

/** A line in pieces, those at odd places match. */
export function pieces(line: string, text: string): string[] {
  if (text === '') return [line];
  const lower = line.toLowerCase();
  const wanted = text.toLowerCase();
  const result: string[] = [];
  let at = 0;
  for (let next = lower.indexOf(wanted); next >= 0; next = lower.indexOf(wanted, at)) {
    result.push(line.slice(at, next), line.slice(next, next + wanted.length));
    at = next + wanted.length;
  }
  result.push(line.slice(at));
  return result;
}
