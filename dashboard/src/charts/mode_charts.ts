import type { CatalogEntry } from '../api/types';
import { number, percent } from '../format';
import type { RankName } from '../ranks';
import { droppedShare, shareOf, type ModeMetric } from './mode';
import { firstOf, linesMax } from './palette';
import type { Points } from './series';

/** The series of a job, and whom they are of. */
export interface ModeSeries {
  /** `rank`: null for the whole job. */
  line: (name: ModeMetric, rank: number | null) => Points;
  workers: readonly number[];
  servers: readonly number[];
  nameOf: RankName;
}

export interface NamedLine {
  label: string;
  series: Points;
}

export interface ModeChart {
  id: string;
  title: string;
  format: (value: number | null, step?: number) => string;
  log?: boolean;
  noisy?: boolean;
  /** Whether a mode is about it, by what the catalog says of the mode. */
  expected: (mode: CatalogEntry) => boolean;
  /** Whom its lines are of; null: the whole job. */
  by: 'workers' | 'servers' | null;
  /** So many of them are drawn. */
  ranksMax: number;
  lines: (of: ModeSeries, ranks: readonly number[]) => NamedLine[];
  /** A value that says nothing: where there is no other, the chart is left out of modes that are not about it. */
  trivial?: number;
  /** Why there is nothing to draw yet. */
  none: string;
}

/** A chart with its lines, and whom they are of where that is not all. */
export interface DrawnChart extends ModeChart {
  drawn: NamedLine[];
  note: string;
}

const hasServers = ({ roles }: CatalogEntry) => roles?.['server'] !== undefined;

function byRank(ranks: readonly number[], nameOf: RankName, of: (rank: number) => Points): NamedLine[] {
  return ranks
    .map((rank) => ({ label: nameOf(rank), series: of(rank) }))
    .filter(({ series }) => series.points.length > 0);
}

const all: readonly ModeChart[] = [
  {
    id: 'idle',
    title: 'Idle share of a step, by worker',
    format: percent,
    noisy: true,
    expected: () => true,
    by: 'workers',
    ranksMax: linesMax,
    lines: ({ line, nameOf }, ranks) =>
      byRank(ranks, nameOf, (rank) => ({
        points: shareOf(line('wait_seconds', rank).points, line('step_seconds', rank).points),
      })),
    none: 'No step yet',
  },
  {
    id: 'local_steps',
    title: 'Local steps between exchanges, by worker',
    format: number,
    expected: ({ exchanges }) => exchanges === 'differences',
    by: 'workers',
    ranksMax: linesMax,
    lines: ({ line, nameOf }, ranks) => byRank(ranks, nameOf, (rank) => line('local_steps', rank)),
    trivial: 1,
    none: 'The workers have not exchanged yet',
  },
  {
    id: 'compression_share',
    title: 'Share of the chosen entries that is sent, by worker',
    format: percent,
    expected: () => false, // only where a worker has been told to send less
    by: 'workers',
    ranksMax: linesMax,
    lines: ({ line, nameOf }, ranks) => byRank(ranks, nameOf, (rank) => line('compression_share', rank)),
    trivial: 1,
    none: 'The workers have not exchanged yet',
  },
  {
    id: 'staleness',
    title: 'Staleness of applied gradients, versions',
    format: number,
    noisy: true,
    expected: hasServers,
    by: 'servers',
    ranksMax: linesMax / 2, // each has two lines
    lines: ({ line, nameOf }, ranks) =>
      ranks
        .flatMap((rank) => [
          { label: `${nameOf(rank)} mean`, series: line('staleness', rank) },
          { label: `${nameOf(rank)} max`, series: line('staleness_max', rank) },
        ])
        .filter(({ series }) => series.points.length > 0),
    none: 'No server has applied a gradient yet',
  },
  {
    id: 'dropped',
    title: 'Dropped gradients, cumulative',
    format: number,
    expected: hasServers,
    by: 'servers',
    ranksMax: linesMax,
    lines: ({ line, nameOf }, ranks) => byRank(ranks, nameOf, (rank) => line('dropped_gradients', rank)),
    none: 'No server has applied a gradient yet',
  },
  {
    id: 'dropped_share',
    title: 'Dropped gradients, share of all',
    format: percent,
    expected: hasServers,
    by: 'servers',
    ranksMax: linesMax,
    lines: ({ line, nameOf }, ranks) =>
      byRank(ranks, nameOf, (rank) => ({
        points: droppedShare(line('dropped_gradients', rank).points, line('applied_gradients', rank).points),
      })),
    none: 'No server has applied a gradient yet',
  },
  {
    id: 'consensus',
    title: "Distance of the workers' models from their mean",
    format: number,
    log: true,
    expected: ({ exchanges }) => exchanges === 'models',
    by: null,
    ranksMax: 0,
    lines: ({ line }) =>
      [{ label: 'root mean square', series: line('consensus_distance', null) }].filter(
        ({ series }) => series.points.length > 0,
      ),
    none: 'It is measured where the model is evaluated or saved',
  },
];

export const logCharts = all.filter(({ log }) => log).map(({ id }) => id);

/**
 * The charts that tell about a mode, with their lines: those that it is about, drawn yet or not, and those for which
 * there are values that say something. `mode`: null if the catalog is not known.
 */
export function modeCharts(mode: CatalogEntry | null, series: ModeSeries): DrawnChart[] {
  const tells = ({ trivial }: ModeChart, { points }: Points) =>
    points.some(({ min, max }) => min !== trivial || max !== trivial);
  return all
    .map((chart) => {
      const ranks = chart.by === null ? [] : series[chart.by];
      const drawn = chart.lines(series, ranks.slice(0, chart.ranksMax));
      return { ...chart, drawn, note: firstOf(chart.ranksMax, ranks.length) };
    })
    .filter(
      (chart) => (mode !== null && chart.expected(mode)) || chart.drawn.some((line) => tells(chart, line.series)),
    );
}
