import { signal, type ReadonlySignal } from '@preact/signals';
import { ApiError } from '../api/client';

/**
 * Something read from the head: what is known of it, whether it is being read, and why that failed. Reading again keeps
 * what is known on screen; an answer that a later request has overtaken is dropped.
 */
export class Resource<T> {
  private readonly value = signal<T | null>(null);
  private readonly fault = signal<ApiError | null>(null);
  private readonly busy = signal(false);
  private request: AbortController | null = null;
  /** What was added while the present read is under way. */
  private added: ((known: T) => T)[] = [];

  get data(): ReadonlySignal<T | null> {
    return this.value;
  }
  get error(): ReadonlySignal<ApiError | null> {
    return this.fault;
  }
  get loading(): ReadonlySignal<boolean> {
    return this.busy;
  }

  /** Gives whether this very request's answer was taken. */
  async load(read: (signal: AbortSignal) => Promise<T>): Promise<boolean> {
    this.request?.abort();
    const request = new AbortController();
    this.request = request;
    this.added = []; // what came before is in the answer
    this.busy.value = true;
    try {
      let answer: T = await read(request.signal);
      if (this.request !== request) return false;
      for (const change of this.added) answer = change(answer);
      this.value.value = answer;
      this.fault.value = null;
      return true;
    } catch (error) {
      if (this.request !== request || request.signal.aborted) return false;
      this.fault.value = error instanceof ApiError ? error : new ApiError(String(error), 0, null);
      return false;
    } finally {
      if (this.request === request) this.busy.value = false;
    }
  }

  /** Changes what is known, if anything is: news from the stream. */
  update(change: (known: T) => T): void {
    if (this.value.value !== null) this.value.value = change(this.value.value);
  }

  /** As update(), and again once a read under way is answered, which may be older: a second time it changes nothing. */
  add(change: (known: T) => T): void {
    if (this.busy.value) this.added.push(change);
    this.update(change);
  }

  cancel(): void {
    this.request?.abort();
    this.request = null;
    this.busy.value = false;
  }
}
