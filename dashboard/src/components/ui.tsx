import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ApiError } from '../api/client';
import { ago, time } from '../format';
import { route, setFilter } from '../router';
import { now } from '../state/clock';
import { Icon, icons } from './icons';

export function Card({
  title,
  tools,
  children,
}: {
  title?: ComponentChildren;
  tools?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="card">
      {title !== undefined && (
        <header class="card-head">
          <h2>{title}</h2>
          {tools}
        </header>
      )}
      {children}
    </section>
  );
}

/** A figure with its name; a link where there is a list behind it. */
export function Stat({
  name,
  value,
  note,
  href,
}: {
  name: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  href?: string;
}) {
  const inside = (
    <>
      <span class="stat-name">{name}</span>
      <span class="stat-value">{value}</span>
      {note !== undefined && note !== null && <span class="stat-note">{note}</span>}
    </>
  );
  return href === undefined ? (
    <div class="stat">{inside}</div>
  ) : (
    <a class="stat" href={href}>
      {inside}
    </a>
  );
}

/** A share as a bar; nothing where it was not measured. */
export function Meter({
  value,
  max,
  label,
}: {
  value: number | null | undefined;
  max: number | null | undefined;
  label: string;
}) {
  if (value === null || value === undefined || max === null || max === undefined) return null;
  const share = max > 0 ? Math.min(1, value / max) : 0;
  return (
    <div
      class={share > 0.9 ? 'meter meter-full' : 'meter'}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuenow={Math.min(value, max)}
    >
      <div style={{ width: `${share * 100}%` }} />
    </div>
  );
}

/** Ages tick by themselves; the exact time is the tooltip. */
export function Ago({ at }: { at: string | null | undefined }) {
  return (
    <time dateTime={at ?? ''} title={time(at)}>
      {ago(at, now.value)}
    </time>
  );
}

export function Skeleton({ rows = 3 }: { rows?: number }) {
  return (
    <div class="skeleton" role="status">
      <span class="hidden">Loading</span>
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} />
      ))}
    </div>
  );
}

/** Nothing there, and the command that would change it. */
export function Empty({
  title,
  children,
  command,
}: {
  title: string;
  children?: ComponentChildren;
  command?: string;
}) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children !== undefined && <p>{children}</p>}
      {command !== undefined && <Command text={command} />}
    </div>
  );
}

export function Command({ text }: { text: string }) {
  return (
    <div class="command">
      <code>{text}</code>
      <CopyButton text={text} />
    </div>
  );
}

/** `name` says what is copied where the text is too long to be read out. */
export function CopyButton({ text, name = text }: { text: string; name?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  // Without a secure context there is no clipboard: the text can still be selected.
  if (navigator.clipboard === undefined) return null;
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setDone(true),
      () => {}, // neither is there where a policy forbids it
    );
  };
  return (
    <button
      type="button"
      class="button-icon"
      aria-label={done ? 'Copied' : `Copy ${name}`}
      onClick={copy}
    >
      <Icon path={done ? icons.check : icons.copy} />
    </button>
  );
}

export function ErrorPanel({
  error,
  retry,
  action = 'Try again',
}: {
  error: ApiError;
  retry?: () => void;
  action?: string;
}) {
  return (
    <div class="error" role="alert">
      <Icon path={icons.warn} />
      <div>
        <strong>{error.problem?.title ?? error.message}</strong>
        {error.problem?.detail !== undefined && <p>{error.problem.detail}</p>}
        {error.requestId !== null && <p class="faint">Request {error.requestId}</p>}
      </div>
      {retry && (
        <button type="button" onClick={retry}>
          {action}
        </button>
      )}
    </div>
  );
}

/** What the page's list is searched for. It is `q` in the URL. */
export function Find({ label }: { label: string }) {
  return (
    <input
      type="search"
      data-search
      placeholder={label}
      aria-label={label}
      maxLength={200}
      value={route.value.query.get('q') ?? ''}
      onInput={(event) => setFilter({ q: event.currentTarget.value })}
    />
  );
}

/** One of a few, as a row of buttons. */
export function Choice<T extends string>({
  label,
  options,
  value,
  onChange,
}: {
  label: string;
  options: readonly { value: T; label: string }[];
  value: T;
  onChange: (value: T) => void;
}) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </div>
  );
}

/** Asks before something that cannot be undone. The browser's own dialog keeps focus inside and closes on Esc. */
export function Confirm({
  title,
  children,
  action,
  danger,
  onConfirm,
  onClose,
}: {
  title: string;
  children: ComponentChildren;
  action: string;
  danger?: boolean;
  onConfirm: () => void;
  onClose: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="confirm-title">
      <h2 id="confirm-title">{title}</h2>
      <div>{children}</div>
      <div class="buttons">
        <button type="button" onClick={() => dialog.current?.close()}>
          Cancel
        </button>
        <button
          type="button"
          class={danger ? 'danger' : 'primary'}
          autofocus
          onClick={() => {
            onConfirm();
            dialog.current?.close();
          }}
        >
          {action}
        </button>
      </div>
    </dialog>
  );
}
