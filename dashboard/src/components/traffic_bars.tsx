import type { Traffic } from '../api/types';
import { bytes } from '../format';

type Row = Traffic['phases'][number];

/** Bytes by name, with a bar for what was sent and received together. */
export function TrafficBars({ label, heading, rows }: { label: string; heading: string; rows: readonly Row[] }) {
  const all = (row: Row) => row.bytes_sent + row.bytes_received;
  const most = Math.max(1, ...rows.map(all));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="rows bars">
        <thead>
          <tr>
            <th scope="col">{heading}</th>
            <th scope="col" class="num">
              Sent
            </th>
            <th scope="col" class="num">
              Received
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <th scope="row">
                <span class="bar-name">{row.name}</span>
                <div class="bar" aria-hidden="true">
                  <div style={{ width: `${(100 * all(row)) / most}%` }} />
                </div>
              </th>
              <td class="num">{bytes(row.bytes_sent)}</td>
              <td class="num">{bytes(row.bytes_received)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
