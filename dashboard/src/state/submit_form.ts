import { computed, signal } from '@preact/signals';
import { ApiError, get, idempotencyKey, request } from '../api/client';
import type { Catalog, Job, Spec, ValidateResult } from '../api/types';
import { dependents, formGroups, type FormField } from '../forms/job_form';
import { faultsByPlace, getAt, isObject, setAt, type Fault } from '../forms/pointer';
import { inputText, parseInput, type JsonSchema } from '../forms/schema';
import { Resource } from './resource';
import { warned } from './warned';

interface Shapes {
  catalog: Catalog;
  schema: JsonSchema;
}

/** The form that was begun last, until it is submitted: whoever looks something up meanwhile finds it as it was. */
let kept: { of: string; form: SubmitForm } | null = null;

/** The form for a new job, for an earlier one again, or for going on from a step of it. */
export function formFor(from: string | null, step: string | null): SubmitForm {
  const of = `${from} ${step}`;
  if (kept?.of !== of) kept = { of, form: new SubmitForm() };
  return kept.form;
}

/** Forgets what was begun: the next form is a fresh one, which reads the catalog and the job anew. */
export function forgetForm(): void {
  kept = null;
}

/** What was typed into a field. */
interface Typed {
  text: string;
  /** Why it is no value of the field, or null: then it is the spec's value, in the user's own writing. */
  fault: string | null;
}

/** One spec, in two views that agree: the form and the JSON text. What the head says of it stands beside its fields. */
export class SubmitForm {
  readonly shapes = new Resource<Shapes>();
  readonly spec = signal<Spec>({});
  readonly text = signal('{}');
  /** Why the text is not a spec; the form waits until it is one again. */
  readonly textFault = signal<string | null>(null);
  private readonly typed = signal<ReadonlyMap<string, Typed>>(new Map());
  readonly refused = signal<ApiError | null>(null);
  readonly checked = signal<ValidateResult | null>(null);
  readonly busy = signal(false);
  private key = idempotencyKey();
  /** The spec that the head was asked about last. */
  private sent: Spec = {};

  readonly groups = computed(() => {
    const shapes = this.shapes.data.value;
    return shapes === null ? [] : formGroups(shapes.schema, shapes.catalog, this.spec.value);
  });

  /**
   * The head's faults by the field that shows them; those of no field under "". One whose value was changed since is
   * none of this spec.
   */
  readonly faults = computed((): Map<string, Fault[]> => {
    const places = this.groups.value.flatMap((group) => group.fields.map(({ pointer }) => pointer));
    const faults = this.refused.value?.problem?.errors ?? [];
    const text = (spec: Spec, { pointer }: Fault) => JSON.stringify(getAt(spec, pointer));
    return faultsByPlace(faults.filter((fault) => text(this.sent, fault) === text(this.spec.value, fault)), places);
  });

  /**
   * Reads, once, the catalog, and the job to start from if there is one. Of a form that is looked at again, what the
   * head said of it then, of free slots for instance, may no longer be so.
   */
  async load(from: string | null, step: number | null): Promise<void> {
    if (this.shapes.data.value !== null) {
      this.checked.value = null;
      return;
    }
    await this.shapes.load(async (signal) => {
      const [catalog, api, job] = await Promise.all([
        get<Catalog>('/api/v1/catalog', {}, signal),
        get<{ components: { schemas: { JobSpec: JsonSchema } } }>('/openapi.json', {}, signal),
        from === null ? null : get<Job>(`/api/v1/jobs/${encodeURIComponent(from)}`, {}, signal),
      ]);
      this.set(job === null ? firstSpec(catalog) : startingFrom(job, step));
      return { catalog, schema: api.components.schemas.JobSpec };
    });
  }

  /** Something was typed that is no value of its field. What was typed into a field that is gone does not count. */
  readonly unfit = computed(() => {
    const fields = this.groups.value.flatMap((group) => group.fields);
    const isThere = (at: string) => this.shapes.data.value === null || fields.some(({ pointer }) => pointer === at);
    return [...this.typed.value].some(([pointer, { fault }]) => fault !== null && isThere(pointer));
  });

  /** What the field shows: what was typed, else the spec's value. "0." is 0, and on its way to 0.25. */
  shown(of: FormField): string {
    return this.typed.value.get(of.pointer)?.text ?? inputText(getAt(this.spec.value, of.pointer));
  }

  /** Why what was typed into the field at `pointer` is no value of it, or null. */
  faultOf(pointer: string): string | null {
    return this.typed.value.get(pointer)?.fault ?? null;
  }

  type(of: FormField, text: string): void {
    const parsed = parseInput(of, text);
    const typed = new Map(this.typed.value);
    if ('error' in parsed) {
      this.typed.value = typed.set(of.pointer, { text, fault: parsed.error });
      return;
    }
    let spec = setAt(this.spec.value, of.pointer, parsed.value);
    const { catalog } = this.shapes.data.value ?? {};
    for (const pointer of dependents(of.pointer, spec, catalog, of.schema.default)) {
      spec = setAt(spec, pointer, undefined);
      for (const other of typed.keys()) {
        if (other === pointer || other.startsWith(`${pointer}/`)) typed.delete(other);
      }
    }
    this.typed.value = typed.set(of.pointer, { text, fault: null });
    this.change(spec);
    this.text.value = JSON.stringify(spec, null, 2);
    this.textFault.value = null;
  }

  edit(text: string): void {
    this.text.value = text;
    try {
      const spec: unknown = JSON.parse(text);
      if (!isObject(spec)) throw new Error('A job spec is a JSON object');
      this.textFault.value = null;
      this.typed.value = new Map();
      this.change(spec);
    } catch (error) {
      this.textFault.value = error instanceof Error ? error.message : String(error);
    }
  }

  async validate(): Promise<void> {
    const result = await this.send<ValidateResult>('/api/v1/jobs/validate', {});
    if (this.sent === this.spec.value) this.checked.value = result;
  }

  /** Gives the new job, or null: `refused` says why. Pressing twice makes one job. */
  async submit(): Promise<Job | null> {
    const job = await this.send<Job>('/api/v1/jobs', { 'Idempotency-Key': this.key });
    if (job === null) return null;
    if (kept?.form === this) forgetForm();
    warned.value = { job: job.id, warnings: job.warnings ?? [] };
    return job;
  }

  private async send<T>(path: string, headers: Record<string, string>): Promise<T | null> {
    if (this.busy.value) return null;
    this.busy.value = true;
    this.refused.value = null;
    this.checked.value = null;
    this.sent = this.spec.value;
    try {
      return await request<T>('POST', path, { body: this.sent, headers });
    } catch (error) {
      this.refused.value = error instanceof ApiError ? error : new ApiError(String(error), 0, null);
      return null;
    } finally {
      this.busy.value = false;
    }
  }

  private set(spec: Spec): void {
    this.typed.value = new Map();
    this.change(spec);
    this.text.value = JSON.stringify(spec, null, 2);
  }

  private change(spec: Spec): void {
    this.spec.value = spec;
    this.key = idempotencyKey(); // another body is another request
    this.checked.value = null;
  }
}

/** Something that can be submitted as it is: the first of what must be chosen. */
export function firstSpec(catalog: Catalog): Spec {
  const model = catalog.models[0]?.name;
  const dataset = catalog.datasets[0]?.name;
  return {
    ...(model !== undefined && { name: `${model}-1`, model: { name: model } }),
    ...(dataset !== undefined && { dataset: { name: dataset } }),
  };
}

/** The spec of an earlier job, to run again; with a step it goes on from that checkpoint. */
export function startingFrom(job: Job, step: number | null): Spec {
  const resume = step === null ? null : { job: job.id, step };
  // The head has completed min_workers to the number of workers, which may be changed here.
  const spec = setAt(job.spec, '/resources/min_workers', undefined);
  return setAt(spec, '/checkpoint/resume_from', resume ?? undefined);
}
