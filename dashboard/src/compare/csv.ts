import type { Bucket } from '../charts/series';

export interface CsvSeries {
  job: string;
  name: string;
  points: readonly Bucket[];
}

/** Series of whole jobs in the columns in which the head exports a job's metrics (api/metric_text.cpp). */
export function csvOf(series: readonly CsvSeries[]): string {
  const lines = ['job,name,worker,x,min,max,last'];
  for (const { job, name, points } of series) {
    const head = `${quoted(job)},${quoted(name)},`;
    for (const { x, min, max, last } of points) lines.push([head, x, ...[min, max, last].map(written)].join(','));
  }
  return lines.map((line) => `${line}\r\n`).join('');
}

function written(value: number | null): string {
  return value === null ? 'nan' : String(value);
}

/** RFC 4180. */
function quoted(field: string): string {
  return /[,"\r\n]/.test(field) ? `"${field.replace(/"/g, '""')}"` : field;
}
