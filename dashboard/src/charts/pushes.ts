import type { Job } from '../api/types';

export interface Label {
  label: string;
  /** What it is, where the name alone does not say it. */
  title?: string;
}

/**
 * What metrics of bytes are called where workers push to servers: there is no ring to compare with, and what servers
 * send is theirs alone.
 */
const pushLabels: Record<string, Label> = {
  bytes_sent: { label: 'sent by workers', title: 'What servers send is not in it' },
  bytes_dense: { label: 'uncompressed', title: "What the workers' pushes would have taken without compression" },
  compression_ratio: { label: 'uncompressed / sent' },
};

/** Other names for metrics of a job than the usual ones. */
export function otherLabels(job: Job | null): Record<string, Label> {
  return job?.workers?.some(({ role }) => role === 'server') ? pushLabels : {};
}
