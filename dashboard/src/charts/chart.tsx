import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { bytes, count, seconds } from '../format';
import { shownTheme } from '../state/theme';
import type { MetricsAxis } from '../api/types';
import type { Zoom } from '../state/metrics';
import { chartData, columnsPerLine, lastValue, newestRows } from './data';
import { timeIncrements, wholeIncrements } from './increments';
import { lineStyle, type LineStyle } from './palette';
import type { Label } from './pushes';
import type { Bucket, Points } from './series';

export interface ChartLine extends Label {
  series: Points;
  /** Which line style it has, if not that of its place. */
  style?: number;
}

export interface ChartProps {
  title: string;
  /** How a value is written; on the axis, one of values that are a step apart. */
  format: (value: number | null, step?: number) => string;
  /** How far apart ticks of the values may stand, if not as decimal numbers do. */
  increments?: readonly number[];
  lines: ChartLine[];
  axis: MetricsAxis;
  smoothing: number;
  log: boolean;
  zoom: Zoom | null;
  /** Moves when any of the lines has changed. */
  version: number;
  onZoom: (zoom: Zoom | null) => void;
  onLog: (log: boolean) => void;
  /** What to say while there is no point yet. */
  empty: string;
  /** Whom the lines are of, where that is not all; '' where it is. */
  note: string;
}

const axisNames: Record<MetricsAxis, string> = {
  step: 'step',
  wall: 'time since the first step',
  bytes: 'bytes sent',
};
const height = 220;
const tableRowsMax = 100;

const axisIncrements: Record<MetricsAxis, readonly number[] | undefined> = {
  step: wholeIncrements,
  wall: timeIncrements,
  bytes: undefined,
};

export function axisFormat(axis: MetricsAxis): ChartProps['format'] {
  return axis === 'step' ? count : axis === 'wall' ? seconds : bytes;
}

/** One chart with its legend. Cursors of all charts on a page move together; dragging zooms all of them. */
export function Chart(props: ChartProps) {
  const { title, lines, axis, log, format, zoom } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const hovered = useSignal<number | null>(null);
  const theme = shownTheme.value;
  const styles = lines.map(({ style }, index) => lineStyle(style ?? index, theme));
  const smoothed = props.smoothing > 0;
  const labels = lines.map(({ label, style }) => `${label} ${style ?? ''}`).join();
  const points = lines.map(({ series }) => series.points);
  const bare = points.every((line) => line.length === 0);

  // What uPlot cannot change on a chart that exists makes a new one.
  useEffect(() => {
    const element = place.current;
    if (element === null || bare) return;
    const chart = new uPlot(
      options(
        () => latest.current,
        element.clientWidth,
        styles,
        element,
        (index) => {
          hovered.value = index;
        },
        (range) => latest.current.onZoom(range),
      ),
      dataOf(latest.current),
      element,
    );
    plot.current = chart;
    element.dataset['drawn'] = `${axis} ${theme} ${smoothed ? 'smoothed' : 'raw'}`; // for tests: a canvas tells nothing
    const resize = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      delete element.dataset['drawn'];
      chart.destroy();
      plot.current = null;
    };
  }, [axis, log, theme, labels, smoothed, bare]);

  // Points come many times a second; a screen shows at most one picture per frame.
  useEffect(() => {
    const frame = requestAnimationFrame(() => plot.current?.setData(dataOf(latest.current)));
    return () => cancelAnimationFrame(frame);
  }, [props.version, props.smoothing, zoom]);

  const at = hovered.value;
  const shownX = at === null ? null : (plot.current?.data[0][at] ?? null);
  return (
    <figure class="chart">
      <figcaption>
        <h3>{title}</h3>
        {props.note !== '' && <span class="faint">{props.note}</span>}
        <span class="chart-x">
          {shownX === null ? '' : (axis === 'step' ? 'step ' : '') + axisFormat(axis)(shownX)}
        </span>
        <button type="button" class="button-small" aria-pressed={log} onClick={() => props.onLog(!log)}>
          log
        </button>
      </figcaption>
      <div
        class="chart-plot"
        ref={place}
        role="img"
        aria-label={`${title} by ${axisNames[axis]}`}
        onDblClick={() => props.onZoom(null)}
      >
        {bare && <p class="chart-empty">{props.empty}</p>}
      </div>
      <ul class="legend">
        {lines.map(({ label, title, series }, index) => {
          const value = shownX === null ? lastValue(series.points) : valueAt(series, shownX);
          return (
            <li key={label} title={title}>
              <Swatch style={styles[index]!} />
              {label}{' '}
              <b>
                <Value of={value} format={format} />
              </b>
            </li>
          );
        })}
      </ul>
      <Table {...props} />
    </figure>
  );
}

export function Swatch({ style }: { style: LineStyle }) {
  return (
    <svg width="26" height="8" aria-hidden="true">
      <line
        x1="1"
        y1="4"
        x2="25"
        y2="4"
        stroke={style.colour}
        stroke-width="2.5"
        stroke-dasharray={style.dash.map((length) => length * 0.8).join(' ')}
      />
    </svg>
  );
}

function counted(lines: readonly ChartLine[]): string {
  const points = Math.max(0, ...lines.map(({ series }) => series.points.length));
  if (points > tableRowsMax) return `newest ${tableRowsMax} of ${count(points)} points`;
  return points === 1 ? '1 point' : `${points} points`;
}

/** A number as the chart draws it: people see it rounded, programs that read the page find every digit. */
function Value({ of, format }: { of: number | null; format: ChartProps['format'] }) {
  return of === null ? <>{format(null)}</> : <data value={String(of)}>{format(of)}</data>;
}

/** The same figures for those who cannot see the chart; made only when opened. */
function Table({ lines, axis, format, title }: ChartProps) {
  const open = useSignal(false);
  const rows = open.value
    ? newestRows(
        lines.map(({ series }) => series.points),
        tableRowsMax,
      )
    : [];
  return (
    <details
      class="chart-table"
      onToggle={(event) => {
        open.value = event.currentTarget.open;
      }}
    >
      <summary>
        Table <span class="faint">of {counted(lines)}</span>
      </summary>
      {open.value && (
        <div class="scroll" tabIndex={0} role="region" aria-label={`${title}, newest values first`}>
          <table>
            <thead>
              <tr>
                <th>{axis}</th>
                {lines.map(({ label }) => (
                  <th key={label}>{label}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map(({ x, buckets }) => (
                <tr key={x}>
                  <td>
                    <Value of={x} format={axisFormat(axis)} />
                  </td>
                  {lines.map(({ label }, index) => (
                    <Cell key={label} bucket={buckets[index]} format={format} />
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}

/** The last value of a bucket, and, where it holds several points, the lowest and the highest, which the band shows. */
function Cell({ bucket, format }: { bucket: Bucket | undefined; format: ChartProps['format'] }) {
  if (bucket === undefined) return <td>–</td>;
  const { min, max, last } = bucket;
  return (
    <td>
      <Value of={last} format={format} />
      {min !== max && (
        <span class="faint">
          {' ('}
          <Value of={min} format={format} /> to <Value of={max} format={format} />)
        </span>
      )}
    </td>
  );
}

function dataOf({ lines, smoothing, log }: ChartProps): uPlot.AlignedData {
  return chartData(
    lines.map(({ series }) => series.points),
    { smoothing, positiveOnly: log },
  );
}

/** The value at x, or the last one before it. */
function valueAt(series: Points, x: number): number | null {
  const { points } = series;
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle]!.x <= x) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? null : points[low - 1]!.last;
}

/** A line of few points shows each of them: a single one would not be seen at all. */
function isSparse(chart: uPlot, index: number): boolean {
  let points = 0;
  for (const value of chart.data[index] ?? []) if (value !== null && value !== undefined) ++points;
  return points * 16 < chart.bbox.width / devicePixelRatio;
}

/** A range for a single value, such that an accuracy does not get an axis up to 150 %. */
function around(value: number): [number, number] {
  const room = Math.abs(value) / 10 || 1;
  return [value - room, value + room];
}

function isPowerOfTen(value: number): boolean {
  const power = Math.log10(value);
  return Math.abs(power - Math.round(power)) < 1e-9;
}

function options(
  current: () => ChartProps,
  width: number,
  styles: LineStyle[],
  element: Element,
  onHover: (index: number | null) => void,
  onZoom: (zoom: Zoom) => void,
): uPlot.Options {
  const props = current();
  const css = getComputedStyle(element);
  const ink = css.getPropertyValue('--ink-soft').trim();
  const grid = { stroke: css.getPropertyValue('--line').trim(), width: 1 };
  const powers = (_: uPlot, splits: number[]) => splits.map((value) => (isPowerOfTen(value) ? value : null));
  const font = `11px ${css.fontFamily}`;
  const write =
    (format: ChartProps['format']): uPlot.Axis.DynamicValues =>
    (_, splits, _axis, _space, step) =>
      splits.map((value) => format(value, step));
  const incrs = (increments: readonly number[] | undefined) => increments && { incrs: [...increments] };
  const axisStyle = { stroke: ink, grid, ticks: { ...grid, size: 4 }, font, labelFont: font };
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  for (const [index, { colour, dash }] of styles.entries()) {
    const first = 1 + index * columnsPerLine;
    const hidden = { stroke: 'transparent', width: 0, points: { show: false }, spanGaps: false };
    series.push(
      hidden,
      hidden,
      { stroke: `${colour}55`, width: 1, points: { show: false }, show: props.smoothing > 0 },
      { stroke: colour, width: 2, dash, points: { show: isSparse, size: 6, fill: colour, stroke: colour } },
    );
    bands.push({ series: [first, first + 1], fill: `${colour}26` });
  }
  return {
    width,
    height,
    series,
    bands,
    legend: { show: false },
    scales: {
      x: {
        time: false,
        range: (_, low, high) => {
          const zoom = current().zoom;
          if (zoom !== null) return [zoom.from, zoom.to];
          return low === high ? [low - 0.5, low + 0.5] : [low, high];
        },
      },
      y: props.log
        ? { distr: 3 }
        : { range: (_, low, high) => (low === high ? around(low) : uPlot.rangeNum(low, high, 0.1, true)) },
    },
    axes: [
      {
        ...axisStyle,
        ...incrs(axisIncrements[props.axis]),
        size: 30,
        values: write(axisFormat(props.axis)),
        space: props.axis === 'step' ? 50 : 80,
      },
      {
        ...axisStyle,
        size: 62,
        ...(props.log
          ? {
              grid: { ...grid, filter: powers },
              ticks: { ...grid, size: 4, filter: powers },
              values: (_, splits) => splits.map((value) => (value === null ? '' : props.format(value))),
            }
          : { ...incrs(props.increments), values: write(props.format) }),
      },
    ],
    cursor: {
      // Other charts follow the pointer, but only the one under it is dragged.
      sync: { key: 'job', filters: { pub: (type) => type === 'mousemove' || type === 'mouseleave' } },
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
    },
    hooks: {
      setCursor: [(chart) => onHover(chart.cursor.idx ?? null)],
      setSelect: [
        (chart) => {
          const { left, width: selected } = chart.select;
          if (selected < 4) return;
          onZoom({ from: chart.posToVal(left, 'x'), to: chart.posToVal(left + selected, 'x') });
          chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}
