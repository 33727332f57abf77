import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { FormFieldView } from '../components/form_field';
import { ValidateView } from '../components/validate_result';
import { Card, ErrorPanel, Skeleton } from '../components/ui';
import { navigate, route } from '../router';
import { session } from '../state/session';
import { forgetForm, formFor, type SubmitForm } from '../state/submit_form';
import type { FormGroup } from '../forms/job_form';

// Who logs in next may be somebody else: what was begun is not theirs to see.
session.subscribe((state) => {
  if (state === 'closed') forgetForm();
});

export function SubmitView() {
  const from = route.value.query.get('from');
  const step = route.value.query.get('step');
  const [times, setTimes] = useState(0); // it was started over
  const form = useMemo(() => formFor(from, step), [from, step, times]);
  const load = () => void form.load(from, step === null ? null : Number(step));
  useEffect(load, [form]);
  const failure = form.shapes.error.value;
  const ready = form.shapes.data.value !== null;
  const blocked = form.textFault.value !== null || form.unfit.value || form.busy.value;
  const submit = async () => {
    const here = place();
    const job = await form.submit();
    if (job !== null && place() === here) navigate(`/jobs/${encodeURIComponent(job.id)}`);
  };
  const startOver = () => {
    forgetForm();
    setTimes(times + 1);
  };
  return (
    <>
      <div class="page-head">
        <h1>{from === null ? 'Submit a job' : 'Submit again'}</h1>
        {from !== null && (
          <span class="faint">
            from <a href={`/jobs/${encodeURIComponent(from)}`}>{from}</a>
            {step !== null && `, going on from step ${step}`}
          </span>
        )}
        <button type="button" disabled={form.busy.value} onClick={startOver}>
          Start over
        </button>
      </div>
      {failure && <ErrorPanel error={failure} retry={load} />}
      {!ready ? (
        !failure && (
          <Card>
            <Skeleton rows={8} />
          </Card>
        )
      ) : (
        <form
          class="submit"
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            void submit();
          }}
        >
          <fieldset class="submit-form" disabled={form.textFault.value !== null}>
            <legend class="hidden">Job spec</legend>
            {form.groups.value.map((group) => (
              <Group key={group.title} group={group} form={form} />
            ))}
          </fieldset>
          <div class="submit-side">
            <Card title="Spec as JSON">
              <label class="hidden" for="spec-text">
                Job spec as JSON
              </label>
              <textarea
                id="spec-text"
                class="code"
                rows={22}
                spellcheck={false}
                value={form.text.value}
                aria-invalid={form.textFault.value !== null}
                aria-describedby="spec-fault"
                onInput={(event) => form.edit(event.currentTarget.value)}
              />
              <p id="spec-fault" class="fault" role="status">
                {form.textFault.value}
              </p>
              <Refusal form={form} />
              <div class="buttons">
                <button type="button" disabled={blocked} onClick={() => void form.validate()}>
                  Validate
                </button>
                <button type="submit" class="primary" disabled={blocked}>
                  Submit
                </button>
              </div>
            </Card>
            {form.checked.value && <ValidateView result={form.checked.value} />}
          </div>
        </form>
      )}
    </>
  );
}

/** Where we are; the form for another job is elsewhere. */
function place(): string {
  const { path, query } = route.value;
  return `${path}?${query}`;
}

function Group({ group, form }: { group: FormGroup; form: SubmitForm }) {
  const faults = form.faults.value;
  const hidden = group.fields.filter(({ basic }) => !basic);
  // What is wrong must be seen.
  const wrong = hidden.some(
    ({ pointer, fault }) => fault !== null || faults.has(pointer) || form.faultOf(pointer) !== null,
  );
  const open = useSignal(false);
  if (hidden.length === group.fields.length) {
    return (
      <details
        class="card card-fold"
        open={open.value || wrong}
        onToggle={(event) => {
          open.value = event.currentTarget.open;
        }}
      >
        <summary>
          <h2>{group.title}</h2>
        </summary>
        <div class="fields">
          {hidden.map((field) => (
            <FormFieldView key={field.pointer} field={field} form={form} />
          ))}
        </div>
      </details>
    );
  }
  return (
    <Card title={group.title}>
      <div class="fields">
        {group.fields
          .filter(({ basic }) => basic)
          .map((field) => (
            <FormFieldView key={field.pointer} field={field} form={form} />
          ))}
      </div>
      {hidden.length > 0 && (
        <details
          open={open.value || wrong}
          onToggle={(event) => {
            open.value = event.currentTarget.open;
          }}
        >
          <summary>More {group.title.toLowerCase()} settings</summary>
          <div class="fields">
            {hidden.map((field) => (
              <FormFieldView key={field.pointer} field={field} form={form} />
            ))}
          </div>
        </details>
      )}
    </Card>
  );
}

/** What the head said, and the faults that no field of the form shows; nothing once each fault was corrected. */
function Refusal({ form }: { form: SubmitForm }) {
  const error = form.refused.value;
  if (error === null || (error.problem?.errors?.length && form.faults.value.size === 0)) return null;
  const elsewhere = form.faults.value.get('') ?? [];
  return (
    <>
      <ErrorPanel error={error} />
      {elsewhere.length > 0 && (
        <ul class="faults">
          {elsewhere.map(({ pointer, detail }) => (
            <li key={pointer + detail}>
              <code>{pointer || 'the spec'}</code> {detail}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
