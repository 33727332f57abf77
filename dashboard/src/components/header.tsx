import { useRef } from 'preact/hooks';
import { navigate, route } from '../router';
import { live, logOut } from '../state/session';
import { nextTheme, theme } from '../state/theme';
import { helpOpen } from '../keys';
import { Icon, icons } from './icons';

const pages = [
  { href: '/', label: 'Overview' },
  { href: '/jobs', label: 'Jobs' },
  { href: '/nodes', label: 'Nodes' },
  { href: '/actors', label: 'Actors' },
];
const themeIcons = { system: icons.system, light: icons.sun, dark: icons.moon };

export function Header() {
  const { path } = route.value;
  const here = (href: string) => (href === '/' ? path === '/' : path.startsWith(href));
  return (
    <header class="top">
      <a class="logo" href="/" aria-label="weir, overview">
        <svg
          width="28"
          height="28"
          viewBox="0 0 32 32"
          fill="none"
          stroke-linecap="round"
          stroke-width="3.2"
          aria-hidden="true"
        >
          <path d="M4 10c4-4 8-4 12 0s8 4 12 0" stroke="var(--accent)" />
          <path d="M4 18c4-4 8-4 12 0s8 4 12 0" stroke="var(--accent-soft)" />
          <path d="M12 26h8" stroke="var(--accent-soft)" />
        </svg>
        weir
      </a>
      <nav aria-label="Pages">
        {pages.map(({ href, label }) => (
          <a key={href} href={href} aria-current={here(href) ? 'page' : undefined}>
            {label}
          </a>
        ))}
      </nav>
      <Search />
      <a class="button primary" href="/submit">
        <Icon path={icons.plus} /> Submit a job
      </a>
      <LiveMark />
      <button
        type="button"
        class="button-icon"
        onClick={nextTheme}
        aria-label={`Theme: ${theme.value}. Change`}
        title={`Theme: ${theme.value}`}
      >
        <Icon path={themeIcons[theme.value]} />
      </button>
      <button
        type="button"
        class="button-icon keys-help"
        onClick={() => {
          helpOpen.value = true;
        }}
        aria-label="Keyboard help"
        title="Keyboard help"
      >
        <span aria-hidden="true">?</span>
      </button>
      <button
        type="button"
        class="button-icon"
        aria-label="Log out"
        title="Log out"
        onClick={() => void logOut()}
      >
        <Icon path={icons.out} />
      </button>
    </header>
  );
}

/** Searches jobs from anywhere; on the job list it is the list's own filter. */
function Search() {
  const { path, query } = route.value;
  const typed = useRef('');
  const searched = path === '/jobs' ? (query.get('q') ?? '') : '';
  // Spaces around what is searched for stay while more is typed.
  const shown = typed.current.trim() === searched ? typed.current : searched;
  const go = (text: string) => {
    const next = new URLSearchParams(path === '/jobs' ? query : undefined);
    next.delete('cursor');
    next.delete('before');
    if (text === '') next.delete('q');
    else next.set('q', text);
    const tail = next.toString();
    navigate(`/jobs${tail === '' ? '' : `?${tail}`}`, path === '/jobs' ? 'replace' : 'push');
  };
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        go(new FormData(event.currentTarget).get('q')?.toString().trim() ?? '');
      }}
    >
      <Icon path={icons.search} />
      <input
        name="q"
        type="search"
        data-search
        placeholder="Search jobs"
        aria-label="Search jobs by name or id"
        maxLength={200}
        value={shown}
        onInput={(event) => {
          typed.current = event.currentTarget.value;
          if (path === '/jobs') go(typed.current.trim());
        }}
      />
      <kbd>/</kbd>
    </form>
  );
}

const liveWords = { connecting: 'Connecting', live: 'Live', lost: 'Disconnected' };

function LiveMark() {
  const { state } = live.status.value;
  if (state === 'idle') return null; // this page shows nothing that changes by itself
  return (
    <span class={`live live-${state}`} title={liveWords[state]}>
      <i aria-hidden="true" />
      {liveWords[state]}
    </span>
  );
}
