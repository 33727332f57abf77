import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { jobStates, type Event, type Job, type JobState, type Node } from '../../src/api/types';
import { actorsOf, catalog, checkpointsOf, eventsOf, history, logText, manyJobs, nodeEvents, nodes } from './data';
import { traceOf, trafficOf } from './traffic';

const dist = new URL('../../dist/', import.meta.url).pathname;
const api = JSON.parse(readFileSync(new URL('../../../api/openapi.json', import.meta.url), 'utf8'));
api.components.schemas.JobSpec = JSON.parse(
  readFileSync(new URL('../../../protocol/job_spec.schema.json', import.meta.url), 'utf8'),
);
const policy =
  "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; " +
  "frame-ancestors 'none'";
const types: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

interface Record_ {
  /** Its place in the stream; 0 for one that has none, and is told once or never. */
  id: number;
  kind: string;
  topics: string[];
  data: unknown;
}

/** A connection that follows topics. */
interface Stream {
  response: ServerResponse;
  topics: string[];
  /** The place that was told last. */
  place: number;
}

export const token = 'mock-token';

const warnings = [
  {
    pointer: '/compression/params/ratio',
    detail: 'at a ratio of 0.001 each entry of the gradient is sent 0.23 times on average',
  },
];

/**
 * A head in the test's hand, for what a real one cannot be asked to do on the spot: ten thousand jobs, a connection cut
 * at a given moment, a forgotten stream position, an expired session, hostile names. It serves the built dashboard with
 * the head's own headers, and the API's shapes.
 */
export class MockHead {
  readonly jobs = manyJobs();
  readonly nodes: Node[] = nodes();
  readonly events: Event[];
  readonly requests: string[] = [];
  insecure = false;
  /** Every API request is answered 401 from now on. */
  expired = false;
  /** Lets the stream's connections wait without an answer. */
  private away = false;
  private readonly streams = new Set<Stream>();
  private readonly records: Record_[] = [];
  private forgotten = 0;
  private sequence = 100;
  private readonly server: Server;

  constructor() {
    this.events = eventsOf(this.jobs[0]!);
    this.server = createServer((request, response) => {
      void this.serve(request, response).catch((error: unknown) => response.writeHead(500).end(String(error)));
    });
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  job(id: string): Job {
    const job = this.jobs.find((candidate) => candidate.id === id);
    if (job === undefined) throw new Error(`no job ${id}`);
    return job;
  }

  /** Publishes a record; those who follow one of the topics get it now, others when they resume. */
  publish(kind: string, topics: string[], data: unknown): void {
    const record = { id: ++this.sequence, kind, topics, data };
    this.records.push(record);
    for (const stream of this.streams) this.tell(stream, [record]);
  }

  /** Tells those who follow the cluster what a heartbeat of a node has brought. */
  beat(node: Node): void {
    for (const stream of this.streams) this.tell(stream, [{ id: 0, kind: 'node', topics: ['cluster'], data: node }]);
  }

  remove(id: string): void {
    this.jobs.splice(this.jobs.indexOf(this.job(id)), 1);
    this.publish('job_removed', ['jobs', `job:${id}`], { id });
  }

  /** Forgets a lost node, whoever asked for it. */
  removeNode(node: Node): void {
    this.nodes.splice(this.nodes.indexOf(node), 1);
    this.publish('node_removed', ['cluster'], { id: node.id });
  }

  setState(id: string, state: JobState, change: Partial<Job> = {}): void {
    const job = Object.assign(this.job(id), { state }, change);
    const { workers: _, ...told } = job;
    this.publish(job.ended_at === null ? 'job' : 'job_end', ['jobs', `job:${id}`], told);
  }

  /** Cuts every stream, and refuses new ones until it is back. */
  cut(): void {
    this.away = true;
    for (const { response } of this.streams) response.destroy();
    this.streams.clear();
  }

  comeBack(): void {
    this.away = false;
  }

  /** Forgets the past: whoever resumes from before gets a reset. */
  forget(): void {
    this.forgotten = ++this.sequence;
    this.records.length = 0;
  }

  /** How many stream connections are open. */
  get followers(): number {
    return this.streams.size;
  }

  /** Whether somebody follows a topic by now; of several, all of them over one stream. */
  follows(...wanted: string[]): boolean {
    return [...this.streams].some(({ topics }) => wanted.every((topic) => topics.includes(topic)));
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const address = new URL(request.url ?? '/', 'http://head');
    this.requests.push(`${request.method} ${address.pathname}${address.search}`);
    response.setHeader('Content-Security-Policy', policy);
    response.setHeader('X-Content-Type-Options', 'nosniff');
    response.setHeader('X-Request-Id', 'req-7');
    const { pathname } = address;
    if (pathname === '/login') {
      response.writeHead(303, { Location: '/', 'Set-Cookie': 'weir_session=yes; HttpOnly; Path=/' }).end();
      return;
    }
    if (!pathname.startsWith('/api/') && pathname !== '/openapi.json') return file(pathname, response);
    const known =
      request.headers.cookie?.includes('weir_session=yes') || request.headers.authorization === `Bearer ${token}`;
    if (this.expired || !known) return problem(response, 401, 'No token, or a wrong one');
    if (pathname === '/openapi.json') return json(response, 200, api);
    const parts = pathname.slice('/api/v1/'.length).split('/').map(decodeURIComponent);
    if (parts[0] === 'jobs' && parts.length >= 2 && parts[1] !== 'validate') {
      return this.oneJob(request, response, address, parts);
    }
    if (parts[0] === 'jobs') return this.allJobs(request, response, address, parts);
    return this.cluster(request, response, address, parts);
  }

  private cluster(request: IncomingMessage, response: ServerResponse, { searchParams }: URL, parts: string[]): void {
    switch (parts[0]) {
      case 'version':
        return json(response, 200, {
          version: '0.1.0',
          api: 'v1',
          started_at: nodes()[0]!.joined_at,
          insecure: this.insecure,
        });
      case 'session':
        if (request.method === 'POST') response.setHeader('Set-Cookie', 'weir_session=yes; HttpOnly; Path=/');
        else response.setHeader('Set-Cookie', 'weir_session=; Max-Age=0; Path=/');
        response.writeHead(204).end();
        return;
      case 'catalog':
        return json(response, 200, catalog);
      case 'events':
        return json(response, 200, { events: inOrder(nodeEvents(), searchParams), next: null });
      case 'actors': {
        const q = searchParams.get('q') ?? '';
        const actors = actorsOf(this.jobs[0]!).filter(({ name, type }) => name.includes(q) || type.includes(q));
        return json(response, 200, { actors, next: null });
      }
      case 'nodes': {
        const node = this.nodes.find(({ id }) => id === parts[1]);
        if (node === undefined) {
          const start = Number(searchParams.get('cursor') ?? 0);
          const end = start + Number(searchParams.get('limit') ?? 100);
          const next = end < this.nodes.length ? String(end) : null;
          return json(response, 200, { nodes: this.nodes.slice(start, end), next });
        }
        if (request.method === 'DELETE' && parts.length === 2) {
          if (node.state !== 'lost') return problem(response, 409, `node ${node.name} is ${node.state}`);
          this.removeNode(node);
          response.writeHead(204).end();
          return;
        }
        node.state = request.method === 'DELETE' ? 'alive' : 'draining';
        this.publish('node', ['cluster'], node);
        return json(response, 200, node);
      }
      case 'stream':
        return this.stream(request, response, searchParams);
      default:
        return problem(response, 404, 'No such thing');
    }
  }

  private async allJobs(request: IncomingMessage, response: ServerResponse, { searchParams }: URL, parts: string[]) {
    if (request.method === 'GET') {
      const states = searchParams.get('state')?.split(',');
      const q = (searchParams.get('q') ?? '').toLowerCase();
      const limit = Number(searchParams.get('limit') ?? 100);
      const start = Number(searchParams.get('cursor') ?? 0);
      const found = this.jobs.filter((job) => job.name.toLowerCase().includes(q) || job.id.toLowerCase().includes(q));
      const all = found.filter((job) => !states || states.includes(job.state));
      const counts = Object.fromEntries(
        jobStates.map((state) => [state, found.filter((job) => job.state === state).length]),
      );
      const jobs = all.slice(start, start + limit).map(({ workers: _, ...job }) => job);
      const next = start + limit < all.length ? String(start + limit) : null;
      return json(response, 200, { jobs, counts, next });
    }
    const spec = JSON.parse(await bodyOf(request));
    if (spec.training?.epoch !== undefined) {
      return problem(response, 422, 'The job spec is not valid', [
        {
          pointer: '/training/epoch',
          detail: 'is not a known field; did you mean "epochs"?',
          suggestion: 'epochs',
        },
      ]);
    }
    if (spec.resources?.workers === 13) {
      return problem(response, 422, 'The job spec is not valid', [
        { pointer: '/resources/workers', detail: 'must be at most 12 here' },
      ]);
    }
    const full = { ...spec, training: { mode: 'sync', epochs: 1, batch_size: 64, ...spec.training } };
    if (parts[1] === 'validate') {
      const count = spec.resources?.workers ?? 1;
      const servers = spec.training?.params?.servers ?? 0;
      return json(response, 200, {
        valid: true,
        spec: full,
        round_bytes: {
          sent_per_worker: spec.exchange?.topology === 'auto' ? null : 1480,
          dense_per_worker: 370_236,
        },
        warnings,
        placement: {
          feasible: true,
          reason: null,
          workers: Array.from({ length: count + servers }, (_, rank) => ({
            rank,
            role: rank < count ? 'worker' : 'server',
            node: `n${1 + (rank >> 1)}`,
          })),
        },
      });
    }
    const job: Job = {
      ...this.jobs[0]!,
      id: `job-${this.jobs.length}`,
      name: spec.name ?? 'unnamed',
      state: 'PENDING',
      phase: 'queued',
      reason: null,
      spec: full,
      created_at: new Date().toISOString(),
      started_at: null,
      step: 0,
      steps_total: null,
      summary: {},
      workers: [],
    };
    this.jobs.unshift(job);
    this.publish('job', ['jobs', `job:${job.id}`], job);
    return json(response, 201, { ...job, warnings });
  }

  private oneJob(request: IncomingMessage, response: ServerResponse, { searchParams }: URL, parts: string[]): void {
    const job = this.jobs.find(({ id }) => id === parts[1]);
    if (job === undefined) return problem(response, 404, `There is no job ${parts[1]}`);
    switch (parts[2]) {
      case undefined:
        if (request.method !== 'DELETE') return json(response, 200, job);
        this.remove(job.id);
        response.writeHead(204).end();
        return;
      case 'stop':
        this.setState(job.id, 'STOPPED', {
          phase: '',
          reason: 'stopped by request',
          ended_at: new Date().toISOString(),
        });
        return json(response, 202, job);
      case 'metrics':
        return json(response, 200, history(job, searchParams));
      case 'events':
        return json(response, 200, { events: inOrder(this.events, searchParams), next: null });
      case 'traffic':
        return json(response, 200, trafficOf(job));
      case 'trace':
        return json(response, 200, traceOf(job, searchParams));
      case 'checkpoints':
        return json(response, 200, { checkpoints: checkpointsOf(job), next: null });
      case 'logs':
        return json(response, 200, logText(job, searchParams));
      default:
        return problem(response, 404, 'No such thing');
    }
  }

  private stream(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): void {
    if (this.away) {
      response.destroy();
      return;
    }
    const topics = (query.get('topics') ?? '').split(',');
    for (const topic of topics.filter((name) => name.startsWith('job:'))) {
      if (!this.jobs.some(({ id }) => `job:${id}` === topic)) return problem(response, 404, 'There is no such job');
    }
    const place = request.headers['last-event-id'] ?? query.get('last_event_id') ?? this.sequence;
    const stream: Stream = { response, topics, place: Number(place) };
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
    response.write('retry: 100\n');
    beat(stream, stream.place);
    if (stream.place < this.forgotten) {
      stream.place = this.sequence;
      write(stream, this.sequence, 'reset', { sequence: this.sequence });
    }
    this.tell(stream, this.records.filter(({ id }) => id > stream.place));
    this.streams.add(stream);
    const silence = setInterval(() => beat(stream, this.sequence), 15_000);
    response.on('close', () => {
      clearInterval(silence);
      this.streams.delete(stream);
    });
  }

  /** Those of these records that the stream has asked for, and its place where none of them tells it. */
  private tell(stream: Stream, records: readonly Record_[]): void {
    const asked = records.filter(({ topics }) => topics.some((topic) => stream.topics.includes(topic)));
    for (const { id, kind, data } of asked) {
      if (id !== 0) stream.place = id;
      write(stream, id, kind, data);
    }
    if (asked.length > 0 && this.sequence > stream.place) beat(stream, this.sequence);
  }
}

function beat(stream: Stream, place: number): void {
  stream.place = place;
  write(stream, place, 'beat', {});
}

function write({ response }: Stream, id: number, kind: string, data: unknown): void {
  const place = id === 0 ? '' : `id: ${id}\n`;
  response.write(`${place}event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`);
}

function inOrder(events: readonly Event[], query: URLSearchParams): readonly Event[] {
  return query.get('order') === 'newest' ? [...events].reverse() : events;
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}

function problem(response: ServerResponse, status: number, detail: string, errors?: unknown[]): void {
  const titles: Record<number, string> = { 401: 'Unauthorized', 404: 'Not found', 409: 'Conflict' };
  const title = titles[status] ?? 'Unprocessable content';
  response
    .writeHead(status, { 'Content-Type': 'application/problem+json' })
    .end(
      JSON.stringify({ type: 'about:blank', title, status, detail, request_id: 'req-7', ...(errors && { errors }) }),
    );
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of request) text += String(piece);
  return text;
}

/** A file of the built dashboard; any other path is the page itself, as the head does it. */
function file(path: string, response: ServerResponse): void {
  const name = extname(path) === '' ? '/index.html' : path;
  try {
    const content = readFileSync(join(dist, name));
    const tag = createHash('sha256').update(content).digest('hex').slice(0, 16);
    response.writeHead(200, { 'Content-Type': types[extname(name)] ?? 'application/octet-stream', ETag: `"${tag}"` });
    response.end(content);
  } catch {
    response.writeHead(404).end();
  }
}
