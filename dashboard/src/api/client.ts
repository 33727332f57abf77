import type { Problem } from './types';

/** A refused request. `problem` is what the head said (RFC 9457); without one the head could not be reached. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly problem: Problem | null,
  ) {
    super(message);
    this.name = 'ApiError';
  }

  get requestId(): string | null {
    return this.problem?.request_id ?? null;
  }
}

export type Query = Record<string, string | number | null | undefined>;

export interface RequestOptions {
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Called when the head answers 401: the session is over. Set once, by state/session. */
let unauthorized: () => void = () => {};
export function onUnauthorized(handler: () => void): void {
  unauthorized = handler;
}

/**
 * By how much the head's clock is ahead of the browser's, in milliseconds. Answers tell it to the second and come some
 * time after they were written: less than two seconds is no difference.
 */
export let clockSkew = 0;

function compareClocks(response: Response): void {
  const skew = Date.parse(response.headers.get('Date') ?? '') - Date.now();
  if (Math.abs(skew - clockSkew) >= 2000) clockSkew = skew;
}

export function url(path: string, query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === '' ? path : `${path}?${text}`;
}

export function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  return request<T>('GET', path, { query, ...(signal && { signal }) });
}

const triesMax = 3;

/**
 * Sends a request and gives its JSON answer (undefined for 204). Reads are tried again when the head is away for a
 * moment; writes are sent once. Throws ApiError, or the signal's AbortError.
 */
export async function request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  for (let tries = 1; ; ++tries) {
    const again = method === 'GET' && tries < triesMax;
    let response: Response;
    try {
      response = await fetch(url(path, options.query), {
        method,
        headers: {
          Accept: 'application/json',
          ...(options.body !== undefined && { 'Content-Type': 'application/json' }),
          ...options.headers,
        },
        ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
        ...(options.signal && { signal: options.signal }),
        credentials: 'same-origin',
      });
    } catch (error) {
      if (options.signal?.aborted) throw error;
      if (!again) throw new ApiError('The head cannot be reached', 0, null);
      await pause(tries);
      continue;
    }
    compareClocks(response);
    if (response.ok) return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
    if (response.status === 503 && again) {
      await pause(tries);
      continue;
    }
    const problem = await problemOf(response);
    if (response.status === 401) unauthorized();
    throw new ApiError(problem?.detail ?? problem?.title ?? `HTTP ${response.status}`, response.status, problem);
  }
}

async function problemOf(response: Response): Promise<Problem | null> {
  try {
    return (await response.json()) as Problem;
  } catch {
    return null;
  }
}

/** Longer each time, and never in step with the other tabs. */
function pause(tries: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 200 * 2 ** tries * (0.5 + Math.random())));
}

/** A fresh Idempotency-Key. Not crypto.randomUUID, which plain-http origins beyond loopback do not have. */
export function idempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
