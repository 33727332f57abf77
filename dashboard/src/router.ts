import { signal } from '@preact/signals';

export interface Route {
  path: string;
  query: URLSearchParams;
}

function current(): Route {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

/** Where we are. Everything a page remembers is in its URL, so that a link or a reload shows the same. */
export const route = signal<Route>(current());

export function navigate(to: string, how: 'push' | 'replace' = 'push'): void {
  if (to === location.pathname + location.search) return;
  if (how === 'push') history.pushState(null, '', to);
  else history.replaceState(null, '', to);
  route.value = current();
  if (how === 'push') scrollTo(0, 0);
}

/** Changes parts of the query in place: null removes one. Replaces the entry, so Back leaves the page. */
export function setQuery(changes: Record<string, string | null>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  navigate(location.pathname + (text === '' ? '' : `?${text}`), 'replace');
}

/** Where in its lists a page is. */
const places = { cursor: null, before: null, page: null, gpu_page: null };

/** Changes what a page's lists are filtered by, in the query: they then begin at their first pages. */
export function setFilter(changes: Record<string, string | null>): void {
  setQuery({ ...places, ...changes });
}

/** Makes plain links move within the app; everything the head itself serves stays a real request. */
export function startRouter(): void {
  addEventListener('popstate', () => {
    route.value = current();
  });
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element).closest('a');
    if (link === null || link.target !== '' || link.hasAttribute('download') || link.origin !== location.origin)
      return;
    if (/^\/(api|login|openapi\.json|metrics|healthz|readyz)(\/|$)/.test(link.pathname)) return;
    if (link.hash !== '' && link.pathname === location.pathname) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}

/** The parts of a path after a pattern such as `/jobs/:id`, or null if it is another path. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const want = pattern.split('/');
  const have = path.split('/');
  if (want.length !== have.length) return null;
  const parts: Record<string, string> = {};
  for (const [index, part] of want.entries()) {
    const value = have[index] ?? '';
    if (part.startsWith(':')) {
      if (value === '') return null;
      try {
        parts[part.slice(1)] = decodeURIComponent(value);
      } catch {
        return null;
      }
    } else if (part !== value) return null;
  }
  return parts;
}
