import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Job } from '../api/types';
import type { FormField } from '../forms/job_form';
import { forgetForm, formFor, startingFrom, SubmitForm } from './submit_form';
import { warned } from './warned';

const epochs: FormField = {
  pointer: '/training/epochs',
  label: 'Epochs',
  kind: 'integer',
  schema: { type: 'integer', minimum: 1 },
  basic: true,
  required: false,
  misfits: [],
  closed: null,
  fault: null,
};
const compressor: FormField = { ...epochs, pointer: '/compression/name', kind: 'text', schema: { type: 'string' } };

const memory: FormField = { ...compressor, pointer: '/compression/memory' };
const lr: FormField = { ...epochs, pointer: '/training/optimizer/lr', kind: 'number', schema: { type: 'number' } };
const ratio: FormField = { ...lr, pointer: '/compression/params/ratio' };

describe('SubmitForm', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('form and text stay the same spec', () => {
    const form = new SubmitForm();
    form.type(epochs, '3');
    expect(JSON.parse(form.text.value)).toEqual({ training: { epochs: 3 } });
    form.edit('{"training": {"epochs": 7}}');
    expect(form.shown(epochs)).toBe('7');
    form.type(epochs, '');
    expect(form.spec.value).toEqual({});
  });

  it('keeps what was typed in sight until it is a value', () => {
    const form = new SubmitForm();
    form.type(epochs, '3');
    form.type(epochs, '3x');
    expect(form.shown(epochs)).toBe('3x');
    expect(form.faultOf('/training/epochs')).toBe('is not a number');
    expect(form.unfit.value).toBe(true);
    expect(form.spec.value).toEqual({ training: { epochs: 3 } });
    form.edit('{"training": ');
    expect(form.textFault.value).not.toBeNull();
    expect(form.spec.value).toEqual({ training: { epochs: 3 } });
    form.edit('[]');
    expect(form.textFault.value).toBe('A job spec is a JSON object');
  });

  it('shows a value as it is being typed, and as the spec writes it once that comes from elsewhere', () => {
    const form = new SubmitForm();
    for (const text of ['0', '0.', '0.2', '0.25', '0.250']) {
      form.type(lr, text);
      expect(form.shown(lr)).toBe(text);
      expect(form.unfit.value).toBe(false);
    }
    expect(form.spec.value).toEqual({ training: { optimizer: { lr: 0.25 } } });
    form.type(compressor, 'top ');
    expect(form.shown(compressor)).toBe('top ');
    expect(form.spec.value).toMatchObject({ compression: { name: 'top' } });
    form.edit('{"training": {"optimizer": {"lr": 1.5}}}');
    expect([form.shown(lr), form.shown(compressor)]).toEqual(['1.5', '']);
  });

  it('another compressor takes the typed parameters and memory of the one before with it', () => {
    const form = new SubmitForm();
    form.type(compressor, 'dgc');
    form.type(memory, 'dgc');
    form.type(ratio, '0.10');
    form.type(lr, '0.50');
    form.type(compressor, 'topk');
    expect([memory, ratio, lr].map((of) => form.shown(of))).toEqual(['', '', '0.50']);
    form.type(ratio, 'much');
    expect(form.unfit.value).toBe(true);
    form.type(compressor, 'dgc');
    expect(form.unfit.value).toBe(false);
  });

  it('another compressor takes the parameters of the one before with it', () => {
    const form = new SubmitForm();
    form.edit('{"compression": {"name": "dgc", "params": {"ratio": 0.1}, "memory": "dgc"}}');
    form.type(compressor, 'topk');
    expect(form.spec.value).toEqual({ compression: { name: 'topk' } });
  });

  it('sends one key per spec, so that pressing twice makes one job', async () => {
    const keys: (string | null)[] = [];
    vi.stubGlobal('fetch', (_: string, init: RequestInit) => {
      keys.push(new Headers(init.headers).get('Idempotency-Key'));
      return Promise.resolve(
        new Response(
          JSON.stringify({
            type: 'about:blank',
            title: 'No',
            status: 422,
            request_id: 'r',
            errors: [{ pointer: '/training/epochs', detail: 'too many' }],
          }),
          { status: 422 },
        ),
      );
    });
    const form = new SubmitForm();
    form.type(epochs, '3');
    expect(await form.submit()).toBeNull();
    expect(form.refused.value?.requestId).toBe('r');
    await form.submit();
    form.type(epochs, '4');
    await form.submit();
    expect(keys[0]).toBe(keys[1]);
    expect(keys[2]).not.toBe(keys[0]);
  });

  it('shows what was refused only while it is what was sent', async () => {
    const errors = ['/training/epochs', '/training/optimizer/lr', '/exchange/widths/1'].map((pointer) => ({
      pointer,
      detail: 'too many',
    }));
    vi.stubGlobal('fetch', () => Promise.resolve(new Response(JSON.stringify({ errors }), { status: 422 })));
    const form = new SubmitForm();
    const told = () => [...form.faults.value.values()].flat().map(({ pointer }) => pointer);
    form.edit('{"training": {"epochs": 3, "optimizer": {"lr": 1}}, "exchange": {"widths": [1, 2]}}');
    await form.submit();
    expect(told()).toEqual(['/training/epochs', '/training/optimizer/lr', '/exchange/widths/1']);
    form.type(epochs, '2');
    expect(told()).toEqual(['/training/optimizer/lr', '/exchange/widths/1']);
    form.edit('{"exchange": {"widths": [1, 3]}, "training": {"optimizer": {"lr": 1}}}');
    expect(told()).toEqual(['/training/optimizer/lr']);
    await form.submit();
    expect(told()).toHaveLength(3);
  });

  it('says of no other spec than the one sent that it is valid', async () => {
    let answer: (response: Response) => void = () => {};
    vi.stubGlobal('fetch', () => new Promise<Response>((resolve) => (answer = resolve)));
    const form = new SubmitForm();
    for (const edited of [false, true]) {
      const asked = form.validate();
      if (edited) form.type(epochs, '3');
      answer(new Response('{"valid": true}'));
      await asked;
      expect(form.checked.value).toEqual(edited ? null : { valid: true });
    }
  });

  it('is found as it was until it is submitted or started over, and reads its shapes once', async () => {
    const kinds = ['models', 'datasets', 'compressors', 'memories', 'modes', 'topologies'];
    const catalog = Object.fromEntries([...kinds, 'optimizers', 'lr_schedules'].map((kind) => [kind, []]));
    const answers: Record<string, unknown> = {
      '/api/v1/catalog': catalog,
      '/openapi.json': { components: { schemas: { JobSpec: {} } } },
      '/api/v1/jobs': { id: 'a' },
      '/api/v1/jobs/validate': { valid: true },
    };
    const fetch = vi.fn((path: string) => Promise.resolve(new Response(JSON.stringify(answers[path]))));
    vi.stubGlobal('fetch', fetch);
    const form = formFor(null, null);
    await form.load(null, null);
    form.type(epochs, '3');
    expect(formFor(null, null)).toBe(form);
    await form.load(null, null);
    expect(form.shown(epochs)).toBe('3');
    expect(fetch).toHaveBeenCalledTimes(2);
    await form.validate();
    expect(form.checked.value).toEqual({ valid: true });
    await form.load(null, null);
    expect(form.checked.value, 'what it said of the cluster then').toBeNull();
    expect((await form.submit())?.id).toBe('a');
    const next = formFor(null, null);
    expect(next).not.toBe(form);
    fetch.mockClear();
    await next.load(null, null);
    next.type(epochs, '3');
    forgetForm();
    const anew = formFor(null, null);
    await anew.load(null, null);
    expect(anew.shown(epochs)).toBe('');
    expect(fetch).toHaveBeenCalledTimes(4);
    expect(formFor('a', null)).not.toBe(next);
    expect(formFor('a', '7')).not.toBe(formFor('a', null));
  });

  it('keeps what the head warns of in the submitted job', async () => {
    const warnings = [{ pointer: '/compression/params/ratio', detail: 'is small' }];
    vi.stubGlobal('fetch', () => Promise.resolve(new Response(JSON.stringify({ id: 'a', warnings }), { status: 201 })));
    expect((await new SubmitForm().submit())?.id).toBe('a');
    expect(warned.value).toEqual({ job: 'a', warnings });
  });

  it('is not held up by what was typed into a field that is gone', async () => {
    const compressor_params = { ratio: { type: 'number', minimum: 0 } };
    const shapes: Record<string, unknown> = {
      '/api/v1/catalog': {
        ...Object.fromEntries(
          ['models', 'datasets', 'memories', 'modes', 'topologies', 'optimizers', 'lr_schedules'].map((kind) => [
            kind,
            [],
          ]),
        ),
        compressors: [
          { name: 'none', summary: '', params: {} },
          { name: 'topk', summary: '', params: { properties: compressor_params } },
        ],
      },
      '/openapi.json': {
        components: {
          schemas: { JobSpec: { properties: { compression: { properties: { name: { type: 'string' } } } } } },
        },
      },
    };
    vi.stubGlobal('fetch', (path: string) => Promise.resolve(new Response(JSON.stringify(shapes[path]))));
    const form = new SubmitForm();
    await form.load(null, null);
    form.edit('{"compression": {"name": "topk"}}');
    form.type(ratio, 'much');
    expect(form.unfit.value).toBe(true);
    form.spec.value = { compression: { name: 'none' } };
    expect(form.faultOf(ratio.pointer)).not.toBeNull();
    expect(form.unfit.value).toBe(false);
  });

  it('keeps beside a default choice what it takes', async () => {
    const takes = (name: string, ...params: string[]) => ({
      name,
      summary: '',
      params: { properties: Object.fromEntries(params.map((param) => [param, { type: 'number' }])) },
    });
    const kinds = ['models', 'datasets', 'compressors', 'memories', 'modes', 'topologies'];
    const named = (name: string) => ({ properties: { name: { type: 'string', default: name } } });
    const training = { properties: { optimizer: named('sgd'), lr_schedule: named('constant') } };
    const shapes: Record<string, unknown> = {
      '/api/v1/catalog': {
        ...Object.fromEntries(kinds.map((kind) => [kind, []])),
        optimizers: [takes('sgd', 'lr', 'momentum'), takes('adam', 'lr', 'beta1')],
        lr_schedules: [takes('constant', 'warmup'), takes('cosine', 'warmup', 'least')],
      },
      '/openapi.json': { components: { schemas: { JobSpec: { properties: { training } } } } },
    };
    vi.stubGlobal('fetch', (path: string) => Promise.resolve(new Response(JSON.stringify(shapes[path]))));
    const form = new SubmitForm();
    await form.load(null, null);
    const optimizer = { name: 'adam', lr: 0.1, beta1: 0.9 };
    form.edit(JSON.stringify({ training: { optimizer, lr_schedule: { name: 'cosine', warmup: 5, least: 1 } } }));
    const chosen = form.groups.value.flatMap(({ fields }) => fields).filter(({ pointer }) => pointer.endsWith('/name'));
    for (const field of chosen) form.type(field, '');
    expect(chosen).toHaveLength(2);
    expect(form.spec.value).toEqual({ training: { optimizer: { lr: 0.1 }, lr_schedule: { warmup: 5 } } });
  });

  it('runs an earlier job again, or goes on from its checkpoint', () => {
    const job = {
      id: 'a',
      spec: { model: { name: 'lenet' }, checkpoint: { keep: 3, resume_from: null }, resources: { min_workers: 2 } },
    };
    expect(startingFrom(job as unknown as Job, null)).toEqual({ model: { name: 'lenet' }, checkpoint: { keep: 3 } });
    expect(startingFrom(job as unknown as Job, 250)).toEqual({
      model: { name: 'lenet' },
      checkpoint: { keep: 3, resume_from: { job: 'a', step: 250 } },
    });
  });
});
