import { expect, it } from 'vitest';
import { seconds } from '../format';
import { timeIncrements, wholeIncrements } from './increments';

it('ticks of a time axis are written as different times, wherever they stand', () => {
  expect([...timeIncrements].sort((a, b) => a - b)).toEqual(timeIncrements);
  for (const increment of timeIncrements) {
    for (const start of [0, 59, 86_399].map((at) => Math.ceil(at / increment) * increment)) {
      if (start / increment > 1e6) continue; // no chart is so long that this is its step
      const texts = Array.from({ length: 10 }, (_, tick) => seconds(start + tick * increment, increment));
      expect(new Set(texts).size, `${increment} from ${start}: ${texts.join(', ')}`).toBe(texts.length);
    }
  }
});

it('steps are whole', () => {
  expect(wholeIncrements.slice(0, 5)).toEqual([1, 2, 5, 10, 20]);
});
