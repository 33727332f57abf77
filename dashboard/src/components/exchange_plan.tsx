import type { Traffic } from '../api/types';
import { candidateRows, routeRows } from '../charts/traffic';
import { count, rate, seconds } from '../format';
import { Bars } from './bars';
import { Card, Empty } from './ui';

/** How the gradients travel and why, and what else was tried. */
export function ExchangePlan({ plan }: { plan: Traffic['plan'] }) {
  if (plan === null) {
    return (
      <Card title="Plan">
        <Empty title="No plan yet">Worker 0 tells how gradients travel.</Empty>
      </Card>
    );
  }
  const { latency_seconds: latency, bytes_per_second: port } = plan;
  return (
    <Card title="Plan" tools={<span class="faint">followed since step {count(plan.step)}</span>}>
      <p>
        Why: {plan.reason}
        {plan.on_trial && '; not all candidates have been tried'}.
      </p>
      {port !== null && (
        <p class="faint">
          Measured: {seconds(latency)} for a message, {rate(port)} through a worker's port.
        </p>
      )}
      <Bars label="Routes of the plan" columns={['Form and topology', 'Buckets', 'Gradients']} rows={routeRows(plan)} />
      {plan.candidates.length > 0 && (
        <Bars
          label="Candidates, time of a step"
          columns={['Candidate', 'Predicted', 'Measured']}
          rows={candidateRows(plan)}
        />
      )}
    </Card>
  );
}
