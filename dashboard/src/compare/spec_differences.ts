import { isObject } from '../forms/pointer';

/** A place where specs differ, and what each has there: null where it has nothing. */
export interface Difference {
  pointer: string;
  values: (string | null)[];
}

/** The places (RFC 6901 pointers, sorted) that not all specs have alike. Names differ for the sake of it: left out. */
export function differences(specs: readonly unknown[]): Difference[] {
  const leaves = specs.map((spec) => new Map(leavesOf(spec, '')));
  const pointers = [...new Set(leaves.flatMap((of) => [...of.keys()]))].sort();
  return pointers
    .filter((pointer) => pointer !== '/name')
    .map((pointer) => ({ pointer, values: leaves.map((of) => of.get(pointer) ?? null) }))
    .filter(({ values }) => values.some((value) => value !== values[0]));
}

/** Lists are compared as a whole. */
function* leavesOf(value: unknown, pointer: string): Generator<[pointer: string, text: string]> {
  if (!isObject(value)) {
    yield [pointer, textOf(value)];
    return;
  }
  for (const [key, inner] of Object.entries(value)) {
    yield* leavesOf(inner, `${pointer}/${key.replace(/~/g, '~0').replace(/\//g, '~1')}`);
  }
}

/** JSON whose keys are sorted, so that their order makes no difference; a string stands for itself. */
function textOf(value: unknown): string {
  const sorted = (_: string, inner: unknown) =>
    isObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner;
  return typeof value === 'string' ? value : JSON.stringify(value, sorted);
}
