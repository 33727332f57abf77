import type { Gpu, Node } from '../api/types';
import { number } from '../format';
import { route } from '../router';
import { bookedText, celsiusText, errorsText, gpuLoadText, gpuMemoryText, wattsText } from '../state/gpus';
import { sliceOf } from '../state/slice';
import { Pages } from './pages';
import { Card, Meter } from './ui';

/** The GPUs of the nodes that have some: who has booked what of them, and their readings. */
export function GpuTable({ nodes }: { nodes: readonly Node[] }) {
  const all = nodes.flatMap((node) => (node.gpus ?? []).map((gpu) => ({ node, gpu })));
  if (all.length === 0) return null;
  const shown = sliceOf(all, route.value.query.get('gpu_page'));
  return (
    <Card title="GPUs">
      <div class="scroll" tabIndex={0} role="region" aria-label="GPUs">
        <table class="rows">
          <thead>
            <tr>
              <th>GPU</th>
              <th>Node</th>
              <th>Booked</th>
              <th>Utilization</th>
              <th>Memory</th>
              <th>Power</th>
              <th>Temperature</th>
              <th>Errors</th>
            </tr>
          </thead>
          <tbody>
            {shown.rows.map(({ node, gpu }) => (
              <GpuRow key={`${node.id} ${gpu.uuid}`} node={node} gpu={gpu} />
            ))}
          </tbody>
        </table>
      </div>
      <Pages of={shown} label="Pages of the GPUs" parameter="gpu_page" />
    </Card>
  );
}

function GpuRow({ node, gpu }: { node: Node; gpu: Gpu }) {
  const title = `GPU ${gpu.index} of ${node.name}`;
  return (
    <tr data-row>
      <td>
        {gpu.index} {gpu.name}
        {gpu.state === 'lost' && <span class="node-state node-state-lost"> lost</span>}
        <div class="faint">{gpu.uuid}</div>
      </td>
      <td>
        <a href={`/nodes?q=${encodeURIComponent(node.name)}`}>{node.name}</a>
      </td>
      <td>
        {bookedText(gpu)}
        {gpu.workers.map((worker) => (
          <div key={worker.worker_id}>
            <a href={`/jobs/${encodeURIComponent(worker.job)}`}>rank {worker.rank}</a>
            <span class="faint"> {number(worker.share)}</span>
          </div>
        ))}
      </td>
      <td>
        {gpuLoadText(gpu)}
        <Meter value={gpu.utilization} max={1} label={`Utilization of ${title}`} />
      </td>
      <td>
        {gpuMemoryText(gpu)}
        <Meter value={gpu.memory_used_bytes} max={gpu.memory_total_bytes} label={`Memory of ${title}`} />
      </td>
      <td>{wattsText(gpu)}</td>
      <td>{celsiusText(gpu)}</td>
      <td>{errorsText(gpu)}</td>
    </tr>
  );
}
