import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { shareIncrements, timeIncrements, wholeIncrements } from '../charts/increments';
import { lineStyle } from '../charts/palette';
import { namesPlaced } from '../compare/names_placed';
import type { Cost } from '../compare/query';
import { evenTicks, logTicks } from '../compare/ticks';
import type { Spot, Tradeoff } from '../compare/tradeoff';
import { bytes, percent, seconds } from '../format';
import { shownTheme } from '../state/theme';

const height = 320;
const edge = { left: 62, right: 16, top: 14, bottom: 44 };
/** A character's width, about, and how many of a name are shown at most. */
const character = 7.5;
const nameMax = 28;

export const costs: Record<Cost, { axis: string; format: typeof bytes; round: readonly number[] }> = {
  bytes: { axis: 'bytes sent', format: bytes, round: wholeIncrements },
  seconds: { axis: 'time from start to end', format: seconds, round: timeIncrements },
};

/** One point for each job; those that no other one beats are joined by steps. Its figures are in the table, too. */
export function TradeoffChart({ of, cost }: { of: Tradeoff; cost: Cost }) {
  const place = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const resize = new ResizeObserver(() => {
      width.value = element.clientWidth;
    });
    resize.observe(element);
    return () => resize.disconnect();
  }, []);
  const { axis } = costs[cost];
  const names = of.front.map(({ label }) => label).join(', ');
  return (
    <div ref={place} class="tradeoff" role="img" aria-label={`Accuracy by ${axis}. On the front: ${names || 'none'}`}>
      {width.value > 0 && of.spots.length > 0 && <Plot of={of} cost={cost} width={width.value} />}
    </div>
  );
}

function Plot({ of: { spots, front }, cost, width }: { of: Tradeoff; cost: Cost; width: number }) {
  const { axis, format, round } = costs[cost];
  const theme = shownTheme.value;
  const [cheap, dear] = padded(spots.map((spot) => Math.log(spot.cost)), 0.1);
  const [low, high] = padded(spots.map(({ gain }) => gain), 0.005);
  const right = width - edge.right;
  const bottom = height - edge.bottom;
  const x = (value: number) => edge.left + ((Math.log(value) - cheap) / (dear - cheap)) * (right - edge.left);
  const y = (value: number) => bottom - ((value - low) / (high - low)) * (bottom - edge.top);
  const columns = logTicks(Math.exp(cheap), Math.exp(dear), round, Math.max(2, Math.floor(width / 110)));
  const rows = evenTicks(low, Math.min(1, high), shareIncrements, 6);
  const most = Math.min(nameMax, Math.floor((width / 2 - edge.right) / character)); // names have half of the width
  const texts = spots.map(({ label }) => (label.length > most ? `${label.slice(0, most - 1)}…` : label));
  const names = namesPlaced(
    spots.map((spot, index) => ({ x: x(spot.cost), y: y(spot.gain), text: texts[index]! })),
    width,
  );
  return (
    <svg width={width} height={height}>
      {columns.map(({ at, step }) => (
        <g key={at}>
          <line class="tradeoff-grid" x1={x(at)} x2={x(at)} y1={edge.top} y2={bottom} />
          <text x={x(at)} y={bottom + 16} text-anchor="middle">
            {format(at, step)}
          </text>
        </g>
      ))}
      {rows.map(({ at, step }) => (
        <g key={at}>
          <line class="tradeoff-grid" x1={edge.left} x2={right} y1={y(at)} y2={y(at)} />
          <text x={edge.left - 8} y={y(at) + 4} text-anchor="end">
            {percent(at, step)}
          </text>
        </g>
      ))}
      <text x={right} y={height - 8} text-anchor="end">
        {axis}
      </text>
      {front.length > 1 && <path class="tradeoff-front" d={steps(front, x, y)} />}
      {spots.map((spot, index) => {
        const { colour } = lineStyle(spot.style, theme);
        const name = names[index]!;
        return (
          <g key={spot.job.id} data-job={spot.job.id} data-front={front.includes(spot)}>
            <title>{`${spot.label}: ${percent(spot.gain)}, ${format(spot.cost)}${spot.ended ? '' : ' so far'}`}</title>
            <circle
              cx={x(spot.cost)}
              cy={y(spot.gain)}
              r="5.5"
              stroke={colour}
              stroke-width="2.5"
              fill={spot.ended ? colour : 'transparent'}
            />
            <text class="tradeoff-name" x={name.x} y={name.y + 4} text-anchor={name.anchor}>
              {texts[index]}
            </text>
          </g>
        );
      })}
    </svg>
  );
}

/** From each to the next: what it gains holds until the next one is paid for. */
function steps(front: readonly Spot[], x: (cost: number) => number, y: (gain: number) => number): string {
  const [first, ...rest] = front.map((spot) => [x(spot.cost), y(spot.gain)] as const);
  return `M${first![0]} ${first![1]}${rest.map(([to, up]) => `H${to}V${up}`).join('')}`;
}

/** A range around values, at least so wide on either side. */
function padded(values: readonly number[], least: number): [low: number, high: number] {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const room = Math.max(least, (high - low) * 0.12);
  return [low - room, high + room];
}
