import { isTerminal, type Job } from '../api/types';
import { bytes, count, elapsed, number, percent, ratio, span } from '../format';
import { getAt } from '../forms/pointer';
import type { Order } from './query';

/** A column of the table of compared jobs. `now` is in milliseconds since the epoch. */
export interface Column {
  id: string;
  title: string;
  /** What its rows are sorted by; null where it is not known. */
  value: (job: Job, now: number) => string | number | null;
  text: (job: Job, now: number) => string;
  /** Which value is the best one, if any is. */
  better?: 'more' | 'less';
  /** It grows until the end: the least is the best only among jobs that have done all they were asked for. */
  total?: boolean;
}

type Figure = (value: number | null | undefined) => string;
type SummaryFigure = 'accuracy' | 'loss' | 'bytes_sent' | 'compression_ratio' | 'samples_per_second';

function figure(id: SummaryFigure, title: string, write: Figure, better: 'more' | 'less'): Column {
  return {
    id,
    title,
    value: ({ summary }) => summary[id] ?? null,
    text: ({ summary }) => write(summary[id]),
    better,
  };
}

function worded(id: string, title: string, text: (job: Job) => string): Column {
  return { id, title, value: text, text };
}

const specText = ({ spec }: Job, pointer: string, usual: string) => String(getAt(spec, pointer) ?? usual);

/** From the start to the end, or to now. */
const ran = (job: Job, now: number) => elapsed(job.started_at, job.ended_at, now);
const workers = ({ spec }: Job) => Number(getAt(spec, '/resources/workers') ?? 1);

export const columns: readonly Column[] = [
  worded('state', 'State', ({ state }) => state),
  worded('mode', 'Mode', (job) => specText(job, '/training/mode', 'sync')),
  worded('compressor', 'Compressor', (job) => {
    return `${specText(job, '/compression/name', 'none')}, ${specText(job, '/exchange/topology', 'ring')}`;
  }),
  { id: 'workers', title: 'Workers', value: workers, text: (job) => count(workers(job)) },
  figure('accuracy', 'Accuracy', percent, 'more'),
  figure('loss', 'Loss', number, 'less'),
  { ...figure('bytes_sent', 'Sent', bytes, 'less'), total: true },
  figure('compression_ratio', 'Ratio', ratio, 'more'),
  {
    id: 'ran',
    title: 'Ran',
    value: ran,
    text: (job, now) => {
      const time = ran(job, now);
      return time === null ? '–' : `${span(time)}${isTerminal(job.state) ? '' : ' so far'}`;
    },
    better: 'less',
    total: true,
  },
  figure('samples_per_second', 'Samples/s', number, 'more'),
];

/** Which of the jobs have the best value of a column; none where there is nothing to compare. */
export function best(column: Column, jobs: readonly Job[], now: number): Set<string> {
  const { better, total } = column;
  const compared = jobs.flatMap((job) => {
    const value = column.value(job, now);
    return typeof value === 'number' && (!total || job.state === 'SUCCEEDED') ? [{ id: job.id, value }] : [];
  });
  const values = compared.map(({ value }) => value);
  const most = Math.max(...values);
  const least = Math.min(...values);
  if (better === undefined || compared.length < 2 || most === least) return new Set();
  return new Set(compared.filter(({ value }) => value === (better === 'more' ? most : least)).map(({ id }) => id));
}

/** The jobs in the order of a column's values; those without one come last, whatever the order. */
export function ordered(jobs: readonly Job[], order: Order | null, now: number): Job[] {
  const column = order === null ? undefined : allColumns.find(({ id }) => id === order.column);
  if (order === null || column === undefined) return [...jobs];
  const sign = order.descending ? -1 : 1;
  return [...jobs].sort((a, b) => {
    const [x, y] = [column.value(a, now), column.value(b, now)];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    return sign * (typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y)));
  });
}

export const nameColumn = worded('name', 'Job', ({ name, id }) => name || id);
const allColumns: readonly Column[] = [nameColumn, ...columns];

/** What a click on a column's heading makes of the order: the best first, the other way round, as they were chosen. */
export function nextOrder({ id, better }: Pick<Column, 'id' | 'better'>, order: Order | null): Order | null {
  const first = better === 'more';
  if (order?.column !== id) return { column: id, descending: first };
  return order.descending === first ? { column: id, descending: !first } : null;
}
