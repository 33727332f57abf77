/**
 * Whether a record belongs to one of the topics: the head's own rule (cluster/stream_hub.cpp, Topics::match). One
 * connection carries the topics of all tabs, so each follower's own are picked out here.
 */
export function matches(topics: readonly string[], kind: string, data: unknown): boolean {
  const { id, job } = data as { id?: unknown; job?: unknown };
  switch (kind) {
    case 'node':
    case 'node_removed':
      return topics.includes('cluster');
    case 'event':
      return topics.includes(job === null || job === undefined ? 'cluster' : `job:${String(job)}`);
    case 'job':
    case 'job_removed':
      return topics.includes('jobs') || topics.includes(`job:${String(id)}`);
    case 'job_end':
      return topics.includes('jobs') || topics.includes(`job:${String(id)}`) || topics.includes(`logs:${String(id)}`);
    case 'metrics':
    case 'checkpoint':
      return topics.includes(`job:${String(job)}`);
    case 'log':
      return topics.includes(`logs:${String(job)}`);
    default:
      return false;
  }
}
