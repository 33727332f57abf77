import { useState } from 'preact/hooks';
import { activities, secondsOf, type Span, type StepRows } from '../charts/traffic';
import { bytes, count, seconds } from '../format';

interface Place {
  row: number;
  span: number;
}

/** One row for each bucket of a step. The numbers of the span under the pointer or the cursor stand below. */
export function StepTimeline({ step }: { step: StepRows }) {
  const [place, setPlace] = useState<Place | null>(null);
  const chosen = place === null ? undefined : step.buckets[place.row]?.spans[place.span];
  const end = Math.max(step.seconds, ...step.buckets.flatMap(({ spans }) => spans.map((s) => s.begin + s.seconds)));
  const move = (event: KeyboardEvent, row: number) => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const last = step.buckets[row]!.spans.length - 1;
    const span = place?.row === row ? place.span + by : 0;
    setPlace({ row, span: Math.min(last, Math.max(0, span)) });
  };
  return (
    <div class="steps">
      <ul class="steps-legend" aria-hidden="true">
        {activities.map((activity) => (
          <li key={activity}>
            <i class={`span-${activity}`} /> {activity}
          </li>
        ))}
      </ul>
      <div class="steps-rows" onMouseLeave={() => setPlace(null)}>
        {step.buckets.map(({ bucket, spans }, row) => (
          <div key={bucket} class="steps-row">
            <span class="steps-name">{bucket}</span>
            <div
              class="steps-track"
              tabIndex={0}
              role="group"
              aria-label={`Bucket ${bucket}: ${summary(spans)}. Arrow keys go through it.`}
              onFocus={() => setPlace({ row, span: 0 })}
              onBlur={() => setPlace(null)}
              onKeyDown={(event) => move(event, row)}
            >
              {spans.map((span, index) => (
                <div
                  key={index}
                  class={`span span-${span.activity}${chosen === span ? ' span-chosen' : ''}`}
                  style={{ left: `${(100 * span.begin) / end}%`, width: `${(100 * span.seconds) / end}%` }}
                  onMouseEnter={() => setPlace({ row, span: index })}
                />
              ))}
            </div>
          </div>
        ))}
      </div>
      <div class="steps-scale" aria-hidden="true">
        <span>0</span>
        <span>{seconds(end / 2)}</span>
        <span>{seconds(end)}</span>
      </div>
      <output class="steps-detail">
        {chosen === undefined || place === null
          ? 'Point at a bucket, or go to it by keyboard, for its numbers.'
          : detail(step.buckets[place.row]!.bucket, chosen)}
      </output>
      {step.dropped > 0 && <p class="faint">{count(step.dropped)} more were not recorded.</p>}
      <StepTable step={step} />
    </div>
  );
}

function StepTable({ step }: { step: StepRows }) {
  const sum = (spans: readonly Span[], of: 'sent' | 'received') => spans.reduce((all, span) => all + span[of], 0);
  return (
    <details>
      <summary>Table</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Buckets of the step">
        <table class="rows">
          <thead>
            <tr>
              <th class="num">Bucket</th>
              {activities.map((activity) => (
                <th key={activity} class="num">
                  {activity}
                </th>
              ))}
              <th class="num">Sent</th>
              <th class="num">Received</th>
            </tr>
          </thead>
          <tbody>
            {step.buckets.map(({ bucket, spans }) => (
              <tr key={bucket}>
                <td class="num">{bucket}</td>
                {activities.map((activity) => (
                  <td key={activity} class="num">
                    {seconds(secondsOf(spans, activity))}
                  </td>
                ))}
                <td class="num">{bytes(sum(spans, 'sent'))}</td>
                <td class="num">{bytes(sum(spans, 'received'))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function summary(spans: readonly Span[]): string {
  return activities.map((activity) => `${activity} ${seconds(secondsOf(spans, activity))}`).join(', ');
}

function detail(bucket: number, { activity, part, begin, seconds: length, sent, received }: Span): string {
  const what = `Bucket ${bucket}, ${activity}${part === '' ? '' : `, ${part}`}`;
  const moved = activity === 'wire' ? `, ${bytes(sent)} sent, ${bytes(received)} received` : '';
  return `${what}: ${seconds(length)} from ${seconds(begin)}${moved}`;
}
