import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, watch } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const binary = process.env['WEIR'] ?? new URL('../../build/release/bin/weir', import.meta.url).pathname;

/** A port that nobody has: test runs go on beside each other and beside a cluster in use. */
const any = '127.0.0.1:0';

/** A real cluster: one that the environment names (WEIR_E2E_URL, WEIR_E2E_TOKEN), or our own `weir up`. */
export class Weir {
  private constructor(
    readonly address: string,
    readonly token: string,
    private readonly process: ChildProcess | null,
    private readonly folder: string | null,
  ) {}

  /** Why there is none to test against, or null. */
  static missing(): string | null {
    const named = process.env['WEIR_E2E_URL'] ?? process.env['WEIR'];
    if (named !== undefined || existsSync(binary)) return null;
    return `${binary} is not built`;
  }

  static async start(cpusPerNode = 2): Promise<Weir> {
    const given = process.env['WEIR_E2E_URL'];
    if (given !== undefined) return new Weir(given, process.env['WEIR_E2E_TOKEN'] ?? '', null, null);
    const folder = mkdtempSync(join(tmpdir(), 'weir-e2e-'));
    // The browser goes first: training takes all of a processor that it gets. nice becomes the program that it starts,
    // so what we signal and wait for is weir itself.
    const up = spawn(
      'nice',
      ['-n', '5', binary, 'up', '--nodes', '2', '--cpus-per-node', String(cpusPerNode),
       '--listen', any, '--http', any, '--data-dir', folder],
      { stdio: ['ignore', 'inherit', 'inherit'] },
    );
    const endpoints = JSON.parse(await whenWritten(join(folder, 'endpoints.json'), up)) as { http: string };
    const token = readFileSync(join(folder, 'token'), 'utf8').trim();
    return new Weir(`http://${endpoints.http.replace(/^http:\/\//, '')}`, token, up, folder);
  }

  /** The link that opens the dashboard, once. */
  async link(): Promise<string> {
    const response = await fetch(`${this.address}/api/v1/session/links`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${this.token}` },
    });
    if (response.status !== 201) throw new Error(`session/links: ${response.status} ${await response.text()}`);
    const { pathname, search } = new URL(((await response.json()) as { url: string }).url);
    return this.address + pathname + search;  // the head may know itself by another name than we do
  }

  /** Talks to the API as a script would: the JSON answer of a request that must succeed. */
  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(this.address + path, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, 'Content-Type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  async stop(): Promise<void> {
    if (this.process !== null && this.process.exitCode === null) {
      const ended = once(this.process, 'exit');
      this.process.kill('SIGINT');
      await ended;
    }
    if (this.folder !== null) rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The content of a file that the process writes (or renames into place) when it is ready. */
async function whenWritten(path: string, by: ChildProcess): Promise<string> {
  const stopped = new AbortController();
  const exit = once(by, 'exit', { signal: stopped.signal });
  const watcher = watch(join(path, '..'));
  try {
    while (!existsSync(path) || readFileSync(path, 'utf8').trim() === '') {
      const ended = await Promise.race([once(watcher, 'change').then(() => false), exit.then(() => true)]);
      if (ended) throw new Error(`weir up ended with ${by.exitCode} before it was ready`);
    }
    return readFileSync(path, 'utf8');
  } finally {
    watcher.close();
    stopped.abort();
    exit.catch(() => {}); // our own abort
  }
}
