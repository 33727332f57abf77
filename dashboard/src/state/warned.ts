import { signal } from '@preact/signals';
import type { Warning } from '../api/types';

/** What the head has warned of in the job that was submitted last here. It says so in that answer only. */
export const warned = signal<{ job: string; warnings: readonly Warning[] } | null>(null);
