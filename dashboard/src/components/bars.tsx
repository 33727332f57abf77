import type { BarRow } from '../charts/traffic';

/** Rows of numbers by name, with a bar, or a few to compare, below each name. */
export function Bars({
  label,
  columns,
  rows,
  most = Math.max(1e-12, ...rows.flatMap(({ bars }) => bars)),
}: {
  label: string;
  /** Headings: of the names, then of the numbers. */
  columns: readonly string[];
  rows: readonly BarRow[];
  /** What the whole width stands for. */
  most?: number;
}) {
  const compared = rows.some(({ bars }) => bars.length > 1);
  const shade = (place: number) => (place === 1 ? 'bar-pale' : '');
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="rows bars">
        <thead>
          <tr>
            {columns.map((column, place) => (
              <th key={column} scope="col" class={place > 0 ? 'num' : ''}>
                {compared && place > 0 && <i class={`swatch ${shade(place)}`} />} {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, bars, cells, mark }, row) => (
            <tr key={row}>
              <th scope="row">
                <span class="bar-name">{name}</span>
                {mark && <span class="badge state-succeeded">{mark}</span>}
                {bars.map((value, place) => (
                  <div key={place} class={`bar ${compared ? shade(place + 1) : ''}`} aria-hidden="true">
                    <div style={{ width: `${(100 * value) / most}%` }} />
                  </div>
                ))}
              </th>
              {cells.map((cell, place) => (
                <td key={place} class="num">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
