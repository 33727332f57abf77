import { isTerminal, type Job } from '../api/types';
import { bytes, count } from '../format';
import type { JobPage } from '../state/job';
import { Icon, icons } from './icons';
import { Ago, Empty, ErrorPanel, Skeleton } from './ui';

export function Checkpoints({ page, job }: { page: JobPage; job: Job }) {
  const checkpoints = page.checkpoints.data.value;
  const error = page.checkpoints.error.value;
  if (error) return <ErrorPanel error={error} retry={() => page.fresh()} />;
  if (checkpoints === null) return <Skeleton />;
  if (checkpoints.length === 0) {
    return (
      <Empty title="No checkpoint yet">
        The spec's <code>checkpoint.every_steps</code> says how often one is taken; stopping the job takes one, too.
      </Empty>
    );
  }
  const id = encodeURIComponent(job.id);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Checkpoints">
      <table class="rows">
        <thead>
          <tr>
            <th class="num">Step</th>
            <th class="num">Size</th>
            <th>Taken</th>
            <th>Download</th>
            <th>Go on</th>
          </tr>
        </thead>
        <tbody>
          {[...checkpoints]
            .sort((a, b) => b.step - a.step)
            .map(({ step, bytes: size, created_at: at }) => (
              <tr key={step} data-row>
                <td class="num">{count(step)}</td>
                <td class="num">{bytes(size)}</td>
                <td>
                  <Ago at={at} />
                </td>
                <td>
                  <a href={`/api/v1/jobs/${id}/checkpoints/${step}`} download={`${job.id}-step-${step}.safetensors`}>
                    <Icon path={icons.download} /> step-{step}.safetensors
                  </a>
                </td>
                <td>{isTerminal(job.state) && <a href={`/submit?from=${id}&step=${step}`}>resume from here</a>}</td>
              </tr>
            ))}
        </tbody>
      </table>
    </div>
  );
}
