import { signal } from '@preact/signals';
import { navigate } from './router';

export const helpOpen = signal(false);

/** What the keys do, in the order in which the help shows them. */
export const shortcuts: readonly { keys: string[]; does: string }[] = [
  { keys: ['/'], does: 'Search' },
  { keys: ['g', 'o'], does: 'Overview' },
  { keys: ['g', 'j'], does: 'Jobs' },
  { keys: ['g', 'n'], does: 'Nodes' },
  { keys: ['g', 'a'], does: 'Actors' },
  { keys: ['g', 's'], does: 'Submit a job' },
  { keys: ['j'], does: 'Next row of a table' },
  { keys: ['k'], does: 'Row before' },
  { keys: ['Enter'], does: 'Open the row' },
  { keys: ['x'], does: 'Tick the row, to compare jobs' },
  { keys: ['Esc'], does: 'Close, leave a field, show the whole chart again' },
  { keys: ['?'], does: 'This help' },
];

const places: Record<string, string> = { o: '/', j: '/jobs', n: '/nodes', a: '/actors', s: '/submit' };

/** What Esc does when nothing else takes it, for instance leaving a chart's zoom. Set by the page on screen. */
export const escape = signal<(() => void) | null>(null);

let going = false;

export function startKeys(): void {
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    const field = /^(input|textarea|select)$/i.test(target.tagName) && (target as HTMLInputElement).type !== 'checkbox';
    const typing = target.isContentEditable || field;
    if (event.key === 'Escape') {
      if (typing) {
        event.preventDefault(); // browsers empty a search
        target.blur();
      } else if (document.querySelector('dialog[open]') === null) escape.value?.();
      return;
    }
    if (typing || document.querySelector('dialog[open]') !== null) return;
    if (going) {
      going = false;
      const place = places[event.key];
      if (place !== undefined) navigate(place);
      return;
    }
    if (event.key === 'g') going = true;
    else if (event.key === '?') helpOpen.value = true;
    else if (event.key === 'j' || event.key === 'k') moveRow(event.key === 'j' ? 1 : -1);
    else if (event.key === 'x') {
      document.activeElement?.closest('[data-row]')?.querySelector<HTMLElement>('.pick')?.click();
    } else if (event.key === '/') {
      // What the page itself offers to search comes first.
      const search =
        document.querySelector<HTMLInputElement>('main [data-search]') ??
        document.querySelector<HTMLInputElement>('[data-search]');
      if (search === null) return;
      event.preventDefault();
      search.focus();
      search.select();
    }
  });
}

/** From row to row of the tables on the page: each has one stop, its first link, whatever else can be clicked in it. */
function moveRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('main [data-row]')].filter((row) => row.querySelector('a'));
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const to = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by));
  rows[to]?.querySelector('a')?.focus();
}
