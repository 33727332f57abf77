import type { Job, Worker } from '../api/types';
import { bytes, count, number, ratio, seconds } from '../format';
import { rankNames } from '../ranks';
import { Empty } from './ui';

export function WorkerTable({ job }: { job: Job }) {
  const workers = job.workers ?? [];
  if (workers.length === 0) return <Empty title="No worker yet">They start when the whole gang has a place.</Empty>;
  const nameOf = rankNames(workers);
  const ahead = Math.max(...workers.filter(({ role }) => role === 'worker').map(({ step }) => step));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Workers">
      <table class="rows">
        <thead>
          <tr>
            <th>Rank</th>
            <th>Role</th>
            <th>Node</th>
            <th>State</th>
            <th class="num">Step</th>
            <th class="num">Loss</th>
            <th class="num">Samples/s</th>
            <th class="num">Step time</th>
            <th class="num">Waiting</th>
            <th class="num">Sent</th>
            <th class="num">Received</th>
            <th class="num">Ratio</th>
            <th class="num">Pid</th>
            <th>
              <span class="hidden">Logs</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {workers.map((worker) => (
            <tr key={worker.rank}>
              <td>{worker.rank}</td>
              <td>{worker.role === 'worker' ? 'worker' : nameOf(worker.rank)}</td>
              <td>{worker.node ? <a href={`/nodes?q=${encodeURIComponent(worker.node)}`}>{worker.node}</a> : '–'}</td>
              <td>
                {worker.state}
                {ending(worker)}
              </td>
              <td class="num">
                {count(worker.step)}
                {worker.role === 'worker' && worker.step < ahead && <span class="faint"> −{ahead - worker.step}</span>}
              </td>
              <td class="num">{number(worker.loss)}</td>
              <td class="num">{number(worker.samples_per_second)}</td>
              <td class="num">{seconds(worker.step_seconds)}</td>
              <td class="num">{seconds(worker.wait_seconds)}</td>
              <td class="num">{bytes(worker.bytes_sent)}</td>
              <td class="num">{bytes(worker.bytes_received)}</td>
              <td class="num">{ratio(worker.compression_ratio)}</td>
              <td class="num">{worker.pid ?? '–'}</td>
              <td>
                <a
                  href={`/jobs/${encodeURIComponent(job.id)}?tab=logs&worker=${worker.rank}`}
                  aria-label={`Logs of ${nameOf(worker.rank)}`}
                >
                  logs
                </a>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ending(worker: Worker) {
  if (worker.signal != null) return <span class="bad"> signal {worker.signal}</span>;
  if (worker.exit_code != null && worker.exit_code !== 0) return <span class="bad"> code {worker.exit_code}</span>;
  return null;
}
