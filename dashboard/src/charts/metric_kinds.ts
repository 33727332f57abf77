import { bytes, number, percent, ratio, seconds } from '../format';
import type { ChartProps } from './chart';
import { timeIncrements } from './increments';

/** How the values of a metric are drawn, whoever's they are. */
export interface MetricKind {
  title: string;
  format: ChartProps['format'];
  increments?: readonly number[];
  /** Shown on a log axis unless the URL says otherwise. */
  log: boolean;
  /** Noise is smoothed; a rare or a cumulative figure would only be falsified. */
  noisy: boolean;
}

/** A map, since a name from the URL may be that of something every object has. */
const titles = new Map([
  ['accuracy', 'Test accuracy'],
  ['loss', 'Training loss'],
  ['samples_per_second', 'Throughput, samples/s'],
]);
const shares = new Set(['accuracy', 'compression_share']);
const noisy = new Set(['loss', 'samples_per_second', 'staleness']);

/** By its name alone (docs/metrics.md): the head tells nothing else of a metric. */
export function metricKind(name: string): MetricKind {
  const spaced = name.replace(/_/g, ' ');
  const title = titles.get(name) ?? spaced.charAt(0).toUpperCase() + spaced.slice(1);
  if (name.endsWith('_seconds')) return { title, format: seconds, increments: timeIncrements, log: false, noisy: true };
  if (name.startsWith('bytes_')) return { title, format: bytes, log: true, noisy: false };
  const format = shares.has(name) ? percent : name.endsWith('ratio') ? ratio : number;
  return { title, format, log: name === 'consensus_distance', noisy: noisy.has(name) };
}
