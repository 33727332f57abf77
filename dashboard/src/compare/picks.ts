/** Which jobs are compared: ids with commas between, in the URL of the list and of the comparison. */

export const picksMin = 2;
/** More lines in one chart are a thicket. */
export const picksMax = 10;

export function idsOf(text: string | null): string[] {
  return [...new Set((text ?? '').split(',').filter((id) => id !== ''))];
}

/** Null, which removes it from the URL, where there is none. */
export function textOf(ids: readonly string[]): string | null {
  return ids.join(',') || null;
}

export function toggled(ids: readonly string[], id: string): string[] {
  return ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id];
}
