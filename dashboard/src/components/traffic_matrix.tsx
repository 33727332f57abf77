import { matrixOf } from '../charts/traffic';
import type { Traffic } from '../api/types';
import { bytes, count } from '../format';
import type { RankName } from '../ranks';

/** At the strongest tint text still has a contrast of 4.5:1 in both themes. */
const tintMax = 34;

/** Who has sent how much to whom: a table whose cells are the darker, the more it is. */
export function TrafficMatrix({ traffic, nameOf }: { traffic: Traffic; nameOf: RankName }) {
  const { ranks, cells, most, left } = matrixOf(traffic);
  const link = (from: number, to: number) => (from === to ? null : `from ${nameOf(from)} to ${nameOf(to)}`);
  const matrix = (
    <div class="scroll" tabIndex={0} role="region" aria-label="Bytes by link">
      <table class="matrix">
        <caption class="hidden">Bytes sent from each process, by row, to each other, by column</caption>
        <thead>
          <tr>
            <th scope="col">from \ to</th>
            {ranks.map((rank) => (
              <th key={rank} scope="col" class="num">
                {heading(nameOf(rank))}
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
                <th scope="row">{heading(nameOf(from))}</th>
                {ranks.map((to, column) => (
                  <Cell key={to} link={link(from, to)} value={line[column]!} most={most} />
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
      <p class="faint">{count(left)} more have moved less.</p>
    </>
  );
}

/** Most are workers, whose number is enough. */
function heading(name: string): string {
  return name.replace(/^worker /, '');
}

/** `link`: null where somebody would talk to themselves. */
function Cell({ link, value, most }: { link: string | null; value: number | null; most: number }) {
  if (link === null) return <td class="num matrix-self">–</td>;
  const tint = most > 0 ? Math.round((tintMax * (value ?? 0)) / most) : 0;
  return (
    <td
      class="num"
      title={value === null ? undefined : `${count(value)} bytes ${link}`}
      style={{ background: `color-mix(in srgb, var(--accent) ${tint}%, transparent)` }}
    >
      {bytes(value)}
    </td>
  );
}
