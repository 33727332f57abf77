/** Reading and changing JSON documents by RFC 6901 pointers, without touching the original. */

function tokens(pointer: string): string[] {
  return pointer === ''
    ? []
    : pointer
        .slice(1)
        .split('/')
        .map((token) => token.replace(/~1/g, '/').replace(/~0/g, '~'));
}

type Json = Record<string, unknown>;

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function getAt(document: unknown, pointer: string): unknown {
  let value = document;
  for (const token of tokens(pointer)) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, token)) return undefined;
    value = (value as Json)[token];
  }
  return value;
}

/** A copy with `value` at the pointer; undefined removes it, together with objects that are empty then. */
export function setAt(document: Json, pointer: string, value: unknown): Json {
  return placed(document, tokens(pointer), value) ?? {};
}

function placed(document: unknown, path: string[], value: unknown): Json | undefined {
  const [token, ...rest] = path;
  if (token === undefined) return value as Json;
  const copy: Json = isObject(document) ? { ...document } : {};
  const inner = rest.length === 0 ? value : placed(copy[token], rest, value);
  // defineProperty, since a plain assignment to "__proto__" would change the copy's prototype.
  if (inner === undefined) delete copy[token];
  else Object.defineProperty(copy, token, { value: inner, enumerable: true, configurable: true, writable: true });
  return Object.keys(copy).length === 0 ? undefined : copy;
}

export interface Fault {
  pointer: string;
  detail: string;
  suggestion?: string | undefined;
}

/** Each fault at the deepest of the given places that contains it; the others under "". */
export function faultsByPlace(faults: readonly Fault[], places: readonly string[]): Map<string, Fault[]> {
  const result = new Map<string, Fault[]>();
  for (const fault of faults) {
    let best = '';
    for (const place of places) {
      const inside = fault.pointer === place || fault.pointer.startsWith(`${place}/`);
      if (inside && place.length > best.length) best = place;
    }
    result.set(best, [...(result.get(best) ?? []), fault]);
  }
  return result;
}
