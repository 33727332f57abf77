/**
 * How numbers, sizes and times are written for people. Everything is a pure function; no locale is assumed.
 *
 * `step`, where there is one: the value stands in a row of values that are so far apart, as on an axis. It is written
 * with the digits that tell it from its neighbours, and no more.
 */

const missing = '–';
/** Milliseconds before which a pace is no more than chance. */
const watchedMin = 3000;

/** 12,345,678 */
export function count(value: number | null | undefined): string {
  if (!isNumber(value)) return missing;
  return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** Four significant digits, without noise: 0.05, 1.234, 12,346, 3.2e-7. */
export function number(value: number | null | undefined, step?: number): string {
  if (!isNumber(value)) return missing;
  const size = Math.abs(value);
  if (value === 0) return '0';
  if (size >= 1e9 || size < 1e-4) {
    const digits = step ? Math.max(0, Math.floor(Math.log10(size)) - lastPlace(step)) : 1;
    return value.toExponential(digits).replace('e+', 'e');
  }
  if (step) return fixed(value, step);
  if (size >= 1000) return count(value);
  return String(Number(value.toPrecision(4)));
}

const byteUnits = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** Decimal units, as networks count: 1.5 kB, 12.3 MB. */
export function bytes(value: number | null | undefined, step?: number): string {
  if (!isNumber(value)) return missing;
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 999.5 && unit < byteUnits.length - 1) {
    size /= 1000;
    ++unit;
  }
  const digits = step ? decimals(step / 1000 ** unit) : unit === 0 || size >= 99.95 ? 0 : 1;
  return `${value < 0 ? '-' : ''}${size.toFixed(digits)} ${byteUnits[unit] ?? ''}`;
}

/** 1.5 kB/s */
export function rate(value: number | null | undefined): string {
  return isNumber(value) ? `${bytes(value)}/s` : missing;
}

/** 0.8934 -> 89.3 % */
export function percent(value: number | null | undefined, step?: number): string {
  return isNumber(value) ? `${(value * 100).toFixed(step ? decimals(step * 100) : 1)} %` : missing;
}

/** 1.86 cores */
export function cores(value: number | null | undefined, digits: number): string {
  return isNumber(value) ? `${value.toFixed(digits)} cores` : missing;
}

/** 412 -> 412x; what the wire is spared. */
export function ratio(value: number | null | undefined, step?: number): string {
  if (!isNumber(value)) return missing;
  if (step) return `${fixed(value, step)}×`;
  return `${value >= 100 ? count(value) : value.toFixed(value >= 10 ? 1 : 2)}×`;
}

/** Short spans as measured, long ones as people count: 0.4 ms, 12.5 ms, 1.25 s, 3 min 05 s, 2 h 04 min, 3 d 04 h. */
export function seconds(value: number | null | undefined, step?: number): string {
  if (!isNumber(value)) return missing;
  if (value < 0) return `-${seconds(-value, step)}`;
  if (value === 0) return '0 s';
  const short = (of: number) => (step ? of.toFixed(decimals((step * of) / value)) : String(Number(of.toPrecision(3))));
  if (value < 1e-3) return `${step ? short(value * 1e6) : (value * 1e6).toFixed(0)} µs`;
  if (value < 0.9995) return `${short(value * 1e3)} ms`;
  if (value < 59.95) return `${short(value)} s`;
  return long(value, step);
}

const spanUnits: readonly [unit: string, seconds: number][] = [
  ['d', 86_400],
  ['h', 3600],
  ['min', 60],
  ['s', 1],
];

/** A minute and more, in two units, or in as many as tell values a step apart. */
function long(value: number, step: number | undefined): string {
  const digits = step ? decimals(step) : 0;
  let rest = Number(value.toFixed(digits));
  const first = spanUnits.findIndex(([, length]) => rest >= length);
  const needed = step ? spanUnits.findIndex(([, length]) => step % length === 0) : first + 1;
  const last = needed < 0 ? spanUnits.length - 1 : Math.max(first, needed);
  const parts: string[] = [];
  for (const [unit, length] of spanUnits.slice(first, last + 1)) {
    const part = length === 1 ? rest.toFixed(digits) : String(Math.floor(rest / length));
    const width = length === 1 && digits > 0 ? digits + 3 : 2;
    parts.push(`${parts.length === 0 ? part : part.padStart(width, '0')} ${unit}`);
    rest %= length;
  }
  return parts.join(' ');
}

/** Whole seconds and up, for ages and durations that tick. */
export function span(milliseconds: number): string {
  return seconds(Math.max(0, Math.round(milliseconds / 1000)));
}

/** How long ago, from an ISO time: "just now", "12 s ago", "3 h ago"; the time itself from a day on. */
export function ago(at: string | null | undefined, now: number): string {
  if (at === null || at === undefined) return missing;
  const then = Date.parse(at);
  if (Number.isNaN(then)) return missing;
  const past = Math.round((now - then) / 1000);
  if (past < 2) return 'just now';
  if (past < 60) return `${past} s ago`;
  if (past < 3600) return `${Math.floor(past / 60)} min ago`;
  return past < 86_400 ? `${Math.floor(past / 3600)} h ago` : time(at);
}

/** Local wall-clock time, to the second: 2026-11-21 01:09:30. */
export function time(at: string | null | undefined): string {
  const date = new Date(at ?? '');
  if (Number.isNaN(date.getTime())) return missing;
  const two = (part: number) => String(part).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** From start to end, or to now while it runs; null if it has not started. */
export function elapsed(start: string | null, end: string | null, now: number): number | null {
  if (start === null) return null;
  const span = (end === null ? now : Date.parse(end)) - Date.parse(start);
  return Number.isNaN(span) ? null : Math.max(0, span);
}

/** From when a job is watched, and at which step it was then. */
export interface Watched {
  step: number;
  /** By the head's clock, in milliseconds since the epoch. */
  at: number;
}

/** "about 2 min left", from the pace since it is watched; null before there is one, and where nothing is left. */
export function timeLeft(step: number, total: number | null, since: Watched | null, now: number): string | null {
  if (since === null || total === null || total <= step) return null;
  const passed = now - since.at;
  const steps = step - since.step;
  if (passed < watchedMin || steps <= 0) return null;
  const left = (passed / steps) * (total - step);
  return `about ${span(Math.ceil(left / 1000) * 1000)} left`; // never "0 s left"
}

/** The power of ten of the last digit of a step that is not 0: -2 of 0.25, 1 of 50. */
function lastPlace(step: number): number {
  const place = Math.floor(Math.log10(step) + 1e-9);
  const digit = step / 10 ** place;
  return Math.abs(digit - Math.round(digit)) < 1e-6 ? place : place - 1;
}

function decimals(step: number): number {
  return Math.max(0, -lastPlace(step));
}

function fixed(value: number, step: number): string {
  return decimals(step) === 0 ? count(value) : value.toFixed(decimals(step));
}

function isNumber(value: number | null | undefined): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}
