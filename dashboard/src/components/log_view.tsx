import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { bytes, count } from '../format';
import { shortName, type RankName } from '../ranks';
import { route, setQuery } from '../router';
import { linesMax, Logs, type LogLine } from '../state/logs';
import { useFollower } from '../state/hooks';
import { Icon, icons } from './icons';
import { findLines, layout, nextMatch, pieces, visible } from './log_rows';
import { Empty, ErrorPanel, Skeleton } from './ui';

/** As in pages.css: .log-line. */
const rowHeight = 18;
const overscan = 12;

/** The tail of a job's output. Only the lines in view are in the document, whatever their number. */
export function LogView({ job, ended, nameOf }: { job: string; ended: boolean; nameOf: RankName }) {
  const logs = useFollower(() => new Logs(job), `logs:${job}`);
  const { query } = route.value;
  const worker = query.get('worker');
  const wrap = query.get('wrap') !== '0';
  const find = query.get('find') ?? '';
  const following = useSignal(true);
  const at = useSignal(0);
  const jumps = useSignal(0);
  const version = logs.version.value;
  useEffect(() => logs.show(worker === null ? null : Number(worker)), [logs, worker]);
  // Paused: what is on screen stays as it was, news is counted.
  const frozen = useRef<readonly LogLine[] | null>(null);
  const all = useMemo(
    () => logs.buffer.lines.filter((line) => worker === null || line.worker === Number(worker)),
    [version, worker, logs],
  );
  if (following.value) frozen.current = null;
  else frozen.current ??= all;
  const lines = frozen.current ?? all;
  const found = useMemo(() => findLines(lines, find), [lines, find]);
  const error = logs.tail.error.value;
  const read = logs.tail.data.value !== null;
  const workers = logs.workers.value;
  const step = (by: number) => {
    if (found.length === 0) return;
    at.value = nextMatch(at.value, by, found.length, following.value);
    following.value = false;
    ++jumps.value;
  };
  return (
    <section class="card card-log" aria-label="Logs">
      <div class="toolbar">
        <label class="tool">
          Worker
          <select
            value={worker ?? ''}
            onChange={(event) => {
              frozen.current = null;
              setQuery({ worker: event.currentTarget.value || null });
            }}
          >
            <option value="">all</option>
            {workers.map(({ worker: rank }) => (
              <option key={rank} value={String(rank)}>
                {nameOf(rank)}
              </option>
            ))}
          </select>
        </label>
        <label class="tool">
          <span class="hidden">Find in the log</span>
          <input
            type="search"
            data-search
            placeholder="Find"
            value={find}
            onInput={(event) => {
              at.value = 0;
              setQuery({ find: event.currentTarget.value });
            }}
            onKeyDown={(event) => {
              if (event.key === 'Enter') step(event.shiftKey ? -1 : 1);
            }}
          />
        </label>
        {find !== '' && (
          <span class="tool" role="status">
            {found.length === 0
              ? 'not found'
              : `${Math.min(at.value, found.length - 1) + 1} of ${found.length} lines`}
            <button type="button" class="button-small" aria-label="Match before" onClick={() => step(-1)}>
              ↑
            </button>
            <button type="button" class="button-small" aria-label="Next match" onClick={() => step(1)}>
              ↓
            </button>
          </span>
        )}
        <label class="tool">
          <input
            type="checkbox"
            checked={wrap}
            onChange={(event) => setQuery({ wrap: event.currentTarget.checked ? null : '0' })}
          />{' '}
          wrap
        </label>
        <span class="tool-space" />
        <button
          type="button"
          aria-pressed={!following.value}
          onClick={() => {
            following.value = !following.value;
          }}
        >
          {following.value
            ? 'Pause'
            : `Follow${all.length > lines.length ? ` (${all.length - lines.length} new)` : ''}`}
        </button>
        <Downloads job={job} worker={worker} workers={workers} nameOf={nameOf} />
      </div>
      {error && <ErrorPanel error={error} retry={() => logs.fresh()} />}
      {read && (
        <Past
          logs={logs}
          nameOf={nameOf}
          onMore={() => {
            following.value = false;
            void logs.readPast().then(() => {
              frozen.current = null; // what was asked for is shown, paused or not
            });
          }}
        />
      )}
      {!read && lines.length === 0 ? (
        !error && <Skeleton rows={8} />
      ) : lines.length === 0 ? (
        <Empty
          title={ended ? 'The workers printed nothing' : 'Nothing printed yet'}
          command={`weir job logs ${job}`}
        />
      ) : (
        <Lines
          lines={lines}
          nameOf={nameOf}
          wrap={wrap}
          find={find}
          all={worker === null && workers.length > 1}
          jump={following.value ? null : (found[at.value] ?? null)}
          jumps={jumps.value}
          follow={following.value}
          version={version}
          onLeave={() => {
            following.value = false;
          }}
        />
      )}
    </section>
  );
}

/** Says how much of the output is not here, of which workers nothing is, and reads more. */
function Past({ logs, nameOf, onMore }: { logs: Logs; nameOf: RankName; onMore: () => void }) {
  const hidden = logs.hidden();
  if (hidden.length === 0) return null;
  const { buffer } = logs;
  const unread = hidden.filter(({ worker }) => buffer.begin(worker) === undefined);
  const error = logs.past.error.value;
  const size = bytes(hidden.reduce((sum, one) => sum + one.bytes, 0));
  return (
    <div class="log-note">
      {error && <ErrorPanel error={error} />}
      {buffer.full ? (
        <p class="faint">Only the newest {count(linesMax)} lines or so are kept here. The download has all of them.</p>
      ) : (
        <p class="faint">
          {size} of earlier output not shown
          {unread.length > 0 && `, among it all of ${ranks(unread.map(({ worker }) => worker), nameOf)}`}.{' '}
          <button type="button" class="button-small" disabled={logs.past.loading.value} onClick={onMore}>
            Show more
          </button>
        </p>
      )}
    </div>
  );
}

/** "rank 7", "ranks 32 to 63", "32 workers" */
function ranks(of: readonly number[], nameOf: RankName): string {
  const first = of[0]!;
  const last = of.at(-1)!;
  if (of.length === 1) return nameOf(first);
  return last - first === of.length - 1 ? `ranks ${first} to ${last}` : `${of.length} workers`;
}

/** Straight from the head to a file: nothing of it passes through the page. */
function Downloads({
  job,
  worker,
  workers,
  nameOf,
}: {
  job: string;
  worker: string | null;
  workers: { worker: number; size: number }[];
  nameOf: RankName;
}) {
  const shown = workers.filter(({ worker: rank }) => worker === null || rank === Number(worker));
  const href = (rank: number) => `/api/v1/jobs/${encodeURIComponent(job)}/logs?worker=${rank}&format=text`;
  if (shown.length === 1) {
    const rank = shown[0]!.worker;
    return (
      <a class="button" href={href(rank)} download={`${job}-worker-${rank}.log`}>
        <Icon path={icons.download} /> Download
      </a>
    );
  }
  return (
    <details class="menu">
      <summary class="button">
        <Icon path={icons.download} /> Download
      </summary>
      <ul>
        {shown.map(({ worker: rank, size }) => (
          <li key={rank}>
            <a href={href(rank)} download={`${job}-worker-${rank}.log`}>
              {nameOf(rank)} <span class="faint">{bytes(size)}</span>
            </a>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Lines({
  lines,
  nameOf,
  wrap,
  find,
  all,
  jump,
  jumps,
  follow,
  version,
  onLeave,
}: {
  lines: readonly LogLine[];
  nameOf: RankName;
  wrap: boolean;
  find: string;
  all: boolean;
  jump: number | null;
  /** How often a match was asked for: again, it may be the one that was scrolled away from. */
  jumps: number;
  follow: boolean;
  version: number;
  onLeave: () => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const view = useSignal({ top: 0, height: 600, columns: 120 });
  // Where we scrolled to ourselves; anything else was the reader's hand.
  const own = useRef(0);
  const place = useMemo(
    () =>
      layout(
        lines.map(({ text }) => text.length),
        wrap ? view.value.columns : null,
      ),
    [lines, version, wrap, view.value.columns],
  );

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const measure = () => {
      const probe = element.querySelector<HTMLElement>('.log-probe');
      const character = (probe?.getBoundingClientRect().width ?? 80) / 10;
      const gutter = all ? 52 : 0;
      const columns = Math.max(20, Math.floor((element.clientWidth - 24 - gutter) / character));
      view.value = { ...view.value, height: element.clientHeight, columns };
    };
    measure();
    const resize = new ResizeObserver(measure);
    resize.observe(element);
    return () => resize.disconnect();
  }, [all]);

  const scrollTo = (top: number) => {
    const element = box.current;
    if (element === null) return;
    element.scrollTop = top;
    own.current = element.scrollTop;
  };
  // The line at the top of the view stays there when lines come before it.
  const anchor = useRef<{ line: LogLine; row: number } | null>(null);
  useLayoutEffect(() => {
    const element = box.current;
    if (follow) scrollTo(place.rows * rowHeight);
    else if (element !== null && anchor.current !== null) {
      const at = lines.indexOf(anchor.current.line);
      if (at >= 0) scrollTo(element.scrollTop + (place.tops[at]! - anchor.current.row) * rowHeight);
    }
  }, [follow, place]);
  useLayoutEffect(() => {
    const [at] = visible(place, Math.floor((box.current?.scrollTop ?? 0) / rowHeight), place.rows);
    const line = lines[at];
    anchor.current = line === undefined ? null : { line, row: place.tops[at]! };
  }, [place, view.value.top]);
  useEffect(() => {
    if (jump !== null) scrollTo(Math.max(0, place.tops[jump]! * rowHeight - view.value.height / 2));
  }, [jump, jumps, find]);

  const { top, height } = view.value;
  const [from, to] = visible(
    place,
    Math.floor(top / rowHeight) - overscan,
    Math.ceil((top + height) / rowHeight) + overscan,
  );
  return (
    <div
      class={wrap ? 'log log-wrap' : 'log'}
      ref={box}
      tabIndex={0}
      role="log"
      aria-label="Output"
      aria-live="off"
      onScroll={(event) => {
        const element = event.currentTarget;
        view.value = { ...view.value, top: element.scrollTop };
        const up = element.scrollTop < own.current - 2;
        if (follow && up && element.scrollTop + element.clientHeight < element.scrollHeight - rowHeight) onLeave();
        own.current = element.scrollTop;
      }}
    >
      <span class="log-probe" aria-hidden="true">
        0000000000
      </span>
      <div class="log-space" style={{ height: `${place.rows * rowHeight}px` }}>
        <div class="log-window" style={{ transform: `translateY(${place.tops[from]! * rowHeight}px)` }}>
          {lines.slice(from, to).map((line, index) => (
            <div key={line.id} class={from + index === jump ? 'log-line log-here' : 'log-line'}>
              {all && <span class="log-rank">{shortName(nameOf(line.worker))}</span>}
              <span class="log-text">{marked(line.text, find)}</span>
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

function marked(text: string, find: string) {
  return pieces(text, find).map((piece, index) => (index % 2 === 1 ? <mark key={index}>{piece}</mark> : piece));
}
