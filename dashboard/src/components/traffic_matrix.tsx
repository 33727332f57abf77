import { matrixOf } from '../charts/traffic';
import type { Traffic } from '../api/types';
import { bytes, count } from '../format';

/** At the strongest tint text still has a contrast of 4.5:1 in both themes. */
const tintMax = 34;

/** Who has sent how much to whom: a table whose cells are the darker, the more it is. */
export function TrafficMatrix({ traffic }: { traffic: Traffic }) {
  const { ranks, cells, most, left } = matrixOf(traffic);
  const matrix = (
    <div class="scroll" tabIndex={0} role="region" aria-label="Bytes from worker to worker">
      <table class="matrix">
        <caption class="hidden">Bytes sent from each worker, by row, to each other, by column</caption>
        <thead>
          <tr>
            <th scope="col">from \ to</th>
            {ranks.map((rank) => (
              <th key={rank} scope="col" class="num">
                {rank}
              </th>
            ))}
            <th scope="col" class="num">
              all
            </th>
          </tr>
        </thead>
        <tbody>
          {ranks.map((from, row) => {
            const line = cells[row]!;
            return (
              <tr key={from}>
                <th scope="row">{from}</th>
                {ranks.map((to, column) => (
                  <Cell key={to} from={from} to={to} value={line[column]!} most={most} />
                ))}
                <td class="num">{bytes(line.reduce<number>((sum, value) => sum + (value ?? 0), 0))}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
  if (left === 0) return matrix;
  return (
    <>
      {matrix}
      <p class="faint">{count(left)} more workers have moved less.</p>
    </>
  );
}

function Cell({ from, to, value, most }: { from: number; to: number; value: number | null; most: number }) {
  if (from === to) return <td class="num matrix-self">–</td>;
  const tint = most > 0 ? Math.round((tintMax * (value ?? 0)) / most) : 0;
  return (
    <td
      class="num"
      title={value === null ? undefined : `${count(value)} bytes from worker ${from} to worker ${to}`}
      style={{ background: `color-mix(in srgb, var(--accent) ${tint}%, transparent)` }}
    >
      {bytes(value)}
    </td>
  );
}
