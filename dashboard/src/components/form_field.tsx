import type { FormField, Misfit } from '../forms/job_form';
import { defaultText, inputText, rangeText } from '../forms/schema';
import type { SubmitForm } from '../state/submit_form';

/** One input with its name, what it means, its range and default, and what is wrong with it. */
export function FormFieldView({ field, form }: { field: FormField; form: SubmitForm }) {
  const id = `field${field.pointer.replace(/\//g, '-')}`;
  const { schema } = field;
  const faults = form.faults.value.get(field.pointer) ?? [];
  const unfit = form.faultOf(field.pointer);
  const range = rangeText(schema);
  const wrong = faults.length > 0 || unfit !== null || field.fault !== null;
  return (
    <div class={wrong ? 'field field-wrong' : 'field'}>
      <label for={id}>
        {field.label}
        {range !== '' && <span class="faint"> {range}</span>}
      </label>
      <Input field={field} form={form} id={id} wrong={wrong} />
      <p class="hint" id={`${id}-hint`}>
        {schema.description}
        {field.closed !== null && field.fault === null && (
          <>
            <br />
            Not to be set here: {field.closed}
          </>
        )}
      </p>
      {field.misfits.length > 0 && <Misfits of={field.misfits} />}
      <div id={`${id}-fault`} class="fault" role="status">
        {unfit !== null && <p>{unfit}</p>}
        {field.fault !== null && <p>{field.fault}</p>}
        {faults.map(({ detail, suggestion }) => (
          <p key={detail}>
            {detail}
            {suggestion !== undefined && (
              <>
                {' '}
                <button type="button" class="button-small" onClick={() => form.type(field, suggestion)}>
                  Use {suggestion}
                </button>
              </>
            )}
          </p>
        ))}
      </div>
    </div>
  );
}

/** What is greyed out, and why. */
function Misfits({ of }: { of: readonly Misfit[] }) {
  return (
    <details class="hint">
      <summary>{of.length === 1 ? '1 does not fit' : `${of.length} do not fit`}</summary>
      <ul class="misfits">
        {of.map(({ choice, reason }) => (
          <li key={choice}>
            <b>{choice}</b>: {reason}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Input({ field, form, id, wrong }: { field: FormField; form: SubmitForm; id: string; wrong: boolean }) {
  const fallback = defaultText(field.schema);
  const value = form.shown(field);
  const common = { id, name: field.pointer, 'aria-invalid': wrong, 'aria-describedby': `${id}-hint ${id}-fault` };
  if (field.kind === 'choice' || field.kind === 'boolean') {
    const options = field.kind === 'boolean' ? ['true', 'false'] : (field.schema.enum ?? []).map(inputText);
    const misfits = field.misfits.map(({ choice }) => choice);
    const unknown = value !== '' && !options.includes(value) && !misfits.includes(value);
    return (
      <select {...common} value={value} onChange={(event) => form.type(field, event.currentTarget.value)}>
        {!field.required && <option value="">{fallback === '' ? 'default' : `default: ${fallback}`}</option>}
        {unknown && <option value={value}>{value}</option>}
        {options
          .filter((option) => option !== '' && !misfits.includes(option))
          .map((option) => (
            <option key={option} value={option}>
              {option}
            </option>
          ))}
        {misfits.map((choice) => (
          <option key={choice} value={choice} disabled>
            {choice} (does not fit)
          </option>
        ))}
      </select>
    );
  }
  const numeric = field.kind === 'integer' || field.kind === 'number';
  return (
    <input
      {...common}
      type="text"
      inputMode={numeric ? 'decimal' : 'text'}
      value={value}
      placeholder={fallback}
      disabled={field.closed !== null && value === ''}
      autocomplete="off"
      spellcheck={false}
      onInput={(event) => form.type(field, event.currentTarget.value)}
    />
  );
}
