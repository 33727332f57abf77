/** How many points a chart has room for: charts stand two in a row. */
export function chartPoints(): number {
  return Math.min(2000, Math.max(300, Math.ceil(innerWidth / 2)));
}
