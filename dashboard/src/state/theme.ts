import { effect, signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';

const key = 'weir-theme';
const themes: readonly Theme[] = ['system', 'light', 'dark'];
const dark = matchMedia('(prefers-color-scheme: dark)');

export const theme = signal<Theme>(themes.find((name) => name === localStorage.getItem(key)) ?? 'system');

/** What is on screen, whoever chose it: charts draw themselves anew when it changes. */
export const shownTheme = signal<'light' | 'dark'>('light');

effect(() => {
  const shown = theme.value === 'system' ? (dark.matches ? 'dark' : 'light') : theme.value;
  document.documentElement.dataset['theme'] = shown;
  shownTheme.value = shown;
  localStorage.setItem(key, theme.value);
});
dark.addEventListener('change', () => {
  if (theme.value !== 'system') return;
  const shown = dark.matches ? 'dark' : 'light';
  document.documentElement.dataset['theme'] = shown;
  shownTheme.value = shown;
});

export function nextTheme(): void {
  theme.value = themes[(themes.indexOf(theme.value) + 1) % themes.length] ?? 'system';
}
