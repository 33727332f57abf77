import type { JobState } from '../api/types';

/** Drawn with currentColor; always beside or labelled by words, so hidden from screen readers. */
export function Icon({ path, size = 16 }: { path: string; size?: number }) {
  return (
    <svg
      class="icon"
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.6"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={path} />
    </svg>
  );
}

export const icons = {
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.4L14 14',
  sun:
    'M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm0-10v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1' +
    'M4 12l-1 1',
  moon: 'M13.5 9.5A5.8 5.8 0 0 1 6.5 2.5a5.8 5.8 0 1 0 7 7Z',
  system: 'M2 3h12v8H2zM6 14h4M8 11v3',
  plus: 'M8 3v10M3 8h10',
  stop: 'M4 4h8v8H4z',
  again: 'M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3',
  trash: 'M3 4h10M6.5 4V2.5h3V4M4.5 4l.6 9.5h5.8l.6-9.5',
  download: 'M8 2v8M5 7l3 3 3-3M3 13h10',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  check: 'M3 8.5l3.2 3.2L13 4.5',
  warn: 'M8 2 1.5 13.5h13ZM8 6.5v3.2M8 11.7v.1',
  out: 'M6 2H2.5v12H6M10 5l3 3-3 3M13 8H6',
};

const stateMarks: Record<JobState, string> = {
  PENDING: 'M8 3.5v4.5l2.5 1.5M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Z',
  RUNNING: 'M5 3.5v9l7-4.5Z',
  SUCCEEDED: 'M3 8.5l3.2 3.2L13 4.5',
  FAILED: 'M4 4l8 8M12 4l-8 8',
  STOPPED: 'M4.5 4.5h7v7h-7z',
};

/** A state is told by word, shape and colour. */
export function StateBadge({ state, phase }: { state: JobState; phase?: string }) {
  return (
    <span class={`badge state-${state.toLowerCase()}`}>
      <Icon path={stateMarks[state]} size={12} />
      {state}
      {phase && phase !== '' ? <span class="badge-phase">{phase}</span> : null}
    </span>
  );
}
