/** How far apart the ticks of an axis may stand. */

function decimal(from: number, to: number): number[] {
  const powers = Array.from({ length: to - from }, (_, index) => from + index);
  return powers.flatMap((power) => [1, 2, 5].map((digit) => Number(`${digit}e${power}`)));
}

export const wholeIncrements = decimal(0, 15);

/** Of one, down to hundredths of a percent. */
export const shareIncrements = decimal(-4, 0);

const day = 86_400;
const clock = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200];

/** In seconds, as clocks and calendars divide them. */
export const timeIncrements = [...decimal(-9, 0), ...clock, ...decimal(0, 4).map((days) => days * day)];
