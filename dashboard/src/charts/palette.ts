import { count } from '../format';

/** More lines cannot be told apart. */
export const linesMax = 8;

/** What a chart says that draws at most `most` of some ranks: nothing where these are all. */
export function firstOf(most: number, all: number): string {
  return most < all ? `the first ${most} of ${count(all)}` : '';
}

/**
 * Line styles in the order they are given out: colours that people with any of the common colour deficiencies can tell
 * apart (after Okabe and Ito, darkened or lightened to at least 3:1 on each background), each with its own dashes.
 * Where there are more lines than colours, those that come round again have other dashes.
 */
const colours = {
  light: ['#0068a8', '#c04a00', '#007a5a', '#9c3d7c', '#7a6200', '#4f5d6b', '#1490c9', '#a3282f'],
  dark: ['#5cb8f0', '#f29a4a', '#3fd0a4', '#e796c8', '#e9d84c', '#a9b6c3', '#9bd3ff', '#ff8f86'],
};
const dashes: readonly number[][] = [[], [9, 4], [3, 3], [10, 3, 3, 3], [5, 5], [2, 4], [14, 4], [6, 2, 2, 2]];

export interface LineStyle {
  colour: string;
  dash: number[];
}

export function lineStyle(index: number, theme: 'light' | 'dark'): LineStyle {
  return { colour: colours[theme][index % 8] ?? '#888888', dash: dashes[(index + Math.floor(index / 8)) % 8] ?? [] };
}
