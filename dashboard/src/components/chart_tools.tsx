import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import type { MetricsAxis } from '../api/types';
import { escape } from '../keys';
import { route, setQuery } from '../router';
import type { Zoom } from '../state/metrics';
import { Choice } from './ui';

/** How charts are shown: everything of it is in the URL. */
export interface ChartView {
  axis: MetricsAxis;
  smoothing: number;
  zoomed: boolean;
  setZoom: (zoom: Zoom | null) => void;
  isLog: (chart: string) => boolean;
  setLog: (chart: string, on: boolean) => void;
}

/** What is charted: the series of a job, or of several. */
export interface Charted {
  setAxis: (axis: MetricsAxis) => Promise<void>;
  setZoom: (zoom: Zoom | null) => Promise<void>;
}

const axes: readonly { value: MetricsAxis; label: string }[] = [
  { value: 'step', label: 'Step' },
  { value: 'wall', label: 'Time' },
  { value: 'bytes', label: 'Bytes' },
];

/**
 * Keeps the series on the axis and stretch that the URL names. `logKey` is where the URL has the charts with a log
 * axis; `usual` are those that have one if it has nothing.
 */
export function useChartView(charted: Charted, logKey: string, usual: readonly string[]): ChartView {
  const { query } = route.value;
  const axis = axes.find(({ value }) => value === query.get('x'))?.value ?? 'step';
  const zoomText = query.get('zoom') ?? '';
  useEffect(() => {
    let over = false; // the URL has changed while the axis was being read
    void charted.setAxis(axis).then(() => (over ? undefined : charted.setZoom(zoomOf(zoomText))));
    return () => {
      over = true;
    };
  }, [charted, axis, zoomText]);
  const setZoom = (zoom: Zoom | null) => setQuery({ zoom: zoom && `${exact(zoom.from)}~${exact(zoom.to)}` });
  useEffect(() => {
    escape.value = () => setZoom(null);
    return () => {
      escape.value = null;
    };
  }, []);
  const logs = query.get(logKey)?.split(',') ?? usual;
  return {
    axis,
    smoothing: Math.min(0.99, Math.max(0, Number(query.get('smooth') ?? 0) || 0)),
    zoomed: zoomText !== '',
    setZoom,
    isLog: (chart) => logs.includes(chart),
    setLog: (chart, on) =>
      setQuery({ [logKey]: [...logs.filter((other) => other !== chart), ...(on ? [chart] : [])].join(',') || '-' }),
  };
}

/** The axis, the smoothing and the way back from a zoom; `children` stand in between, what exports the series last. */
export function ChartTools({
  view,
  csv,
  children,
}: {
  view: ChartView;
  csv: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <div class="toolbar">
      <span class="tool">
        <span>by</span>{' '}
        <Choice
          label="Horizontal axis"
          options={axes}
          value={view.axis}
          onChange={(value) => setQuery({ x: value === 'step' ? null : value, zoom: null })}
        />
      </span>
      <label class="tool">
        Smoothing
        <input
          type="range"
          min="0"
          max="0.98"
          step="0.02"
          value={view.smoothing}
          onInput={(event) =>
            setQuery({ smooth: event.currentTarget.value === '0' ? null : event.currentTarget.value })
          }
        />
        <output>{view.smoothing.toFixed(2)}</output>
      </label>
      {children}
      <span class="tool-space" />
      {view.zoomed ? (
        <button type="button" onClick={() => view.setZoom(null)}>
          Show all <kbd>Esc</kbd>
        </button>
      ) : (
        <span class="faint">Drag over a chart to zoom</span>
      )}
      {csv}
    </div>
  );
}

/** Every recorded point of a job. */
export function JobCsv({ job }: { job: string }) {
  return (
    <a href={`/api/v1/jobs/${encodeURIComponent(job)}/metrics?format=csv&points=all`} download={`${job}.csv`}>
      CSV
    </a>
  );
}

function zoomOf(text: string): Zoom | null {
  const [from, to] = text.split('~').map(Number);
  return from !== undefined && to !== undefined && to > from ? { from, to } : null;
}

/** Enough digits for a link, not seventeen. */
function exact(value: number): string {
  return String(Number(value.toPrecision(9)));
}
