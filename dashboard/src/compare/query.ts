import { idsOf, picksMax } from './picks';

/** What of a comparison is chosen on its page, apart from how its charts are drawn (useChartView). */
export interface Chosen {
  ids: string[];
  /** Jobs that the URL names beyond those that are compared. */
  left: string[];
  metrics: string[];
  /** What accuracy is drawn against. */
  cost: Cost;
  order: Order | null;
}

export type Cost = 'bytes' | 'seconds';

/** How the table's rows are sorted; without it they stand as the jobs were chosen. */
export interface Order {
  column: string;
  descending: boolean;
}

export const usualMetrics: readonly string[] = ['accuracy', 'loss'];
const metricsMax = 24;

export function chosenOf(query: URLSearchParams): Chosen {
  const ids = idsOf(query.get('jobs'));
  const metrics = idsOf(query.get('m')).filter((name) => /^\w{1,64}$/.test(name));
  const sort = query.get('sort') ?? '';
  const descending = sort.startsWith('-');
  return {
    ids: ids.slice(0, picksMax),
    left: ids.slice(picksMax),
    metrics: metrics.length > 0 ? metrics.slice(0, metricsMax) : [...usualMetrics],
    cost: query.get('cost') === 'seconds' ? 'seconds' : 'bytes',
    order: sort === '' ? null : { column: descending ? sort.slice(1) : sort, descending },
  };
}

/** `m` of the URL: null where these are the usual ones. */
export function metricsText(metrics: readonly string[]): string | null {
  return metrics.join() === usualMetrics.join() ? null : metrics.join(',');
}

export function orderText(order: Order | null): string | null {
  return order && `${order.descending ? '-' : ''}${order.column}`;
}
