import { describe, expect, it } from 'vitest';
import type { Catalog } from '../api/types';
import { dependents, formGroups } from './job_form';
import { faultsByPlace, getAt, setAt } from './pointer';
import { defaultText, field, fieldsOf, parseInput, rangeText, type JsonSchema } from './schema';

const entry = (name: string, params: JsonSchema = {}, more = {}) => ({
  name,
  summary: `About ${name}`,
  params,
  ...more,
});
const catalog = {
  models: [entry('lenet'), entry('mlp', { properties: { hidden: { type: 'integer', default: 64, minimum: 1 } } })],
  datasets: [entry('fashion-mnist')],
  compressors: [
    entry('none', {}, { memories: [] }),
    entry(
      'dgc',
      { properties: { ratio: { type: 'number', exclusiveMinimum: 0, maximum: 1, default: 0.001 } } },
      { memories: ['dgc'], memory_misfits: { residual: 'It masks.' } },
    ),
  ],
  memories: [entry('residual'), entry('dgc')],
  modes: [entry('sync')],
  topologies: [entry('ring'), entry('auto')],
  optimizers: [entry('sgd', { properties: { lr: { type: 'number', default: 0.05 } } })],
  lr_schedules: [entry('constant')],
} as unknown as Catalog;

const schema: JsonSchema = {
  properties: {
    name: { type: 'string' },
    model: { properties: { name: { type: 'string' }, params: { type: 'object' } } },
    dataset: { properties: { name: { type: 'string' }, path: { type: ['string', 'null'], default: null } } },
    training: {
      properties: {
        mode: { type: 'string', default: 'sync' },
        epochs: { type: 'integer', default: 1, minimum: 1 },
        optimizer: { properties: { name: { type: 'string', default: 'sgd' }, lr: { type: 'number' } } },
        params: { type: 'object' },
      },
    },
    compression: {
      properties: {
        name: { type: 'string', default: 'none' },
        params: { type: 'object' },
        memory: { type: ['string', 'null'] },
      },
    },
  },
};
const pointers = (spec: Record<string, unknown>) =>
  formGroups(schema, catalog, spec).flatMap(({ fields }) => fields.map(({ pointer }) => pointer));

describe('formGroups', () => {
  it('asks what the schema has, with choices and parameters from the catalog', () => {
    const spec = { model: { name: 'mlp' }, compression: { name: 'dgc' } };
    expect(pointers(spec)).toEqual([
      '/name',
      '/model/name',
      '/model/params/hidden',
      '/dataset/name',
      '/dataset/path',
      '/training/epochs',
      '/training/optimizer/lr',
      '/training/mode',
      '/training/optimizer/name',
      '/compression/name',
      '/compression/params/ratio',
      '/compression/memory',
    ]);
  });

  it('has the parameters of what is chosen only, by default if nothing is', () => {
    expect(pointers({})).toContain('/training/optimizer/lr');
    expect(pointers({})).not.toContain('/compression/params/ratio');
    expect(pointers({ model: { name: 'unheard-of' } })).not.toContain('/model/params/hidden');
  });

  it('does not ask for parameters without effect, unless they are there', () => {
    const params = {
      widths: { type: 'array', default: [] },
      hidden: { type: 'integer', default: 64, onlyWhere: { widths: { maxItems: 0 } } },
      delay: { type: 'integer', default: 0 },
      merge: { type: 'number', default: 0, onlyWhere: { delay: { minimum: 1 } } },
      kind: { enum: ['a', 'b', 'c'], default: 'a' },
      of_a: { type: 'number', default: 0, onlyWhere: { kind: { const: 'a' } } },
      of_others: { type: 'number', default: 0, onlyWhere: { kind: { enum: ['b', 'c'] } } },
    };
    const with_params = { ...catalog, models: [entry('mlp', { properties: params } as JsonSchema)] } as Catalog;
    const asked = (given: object) =>
      formGroups(schema, with_params, { model: { name: 'mlp', params: given } })
        .flatMap(({ fields }) => fields.map(({ pointer }) => pointer.replace('/model/params/', '')))
        .filter((name) => name in params && !['widths', 'delay', 'kind'].includes(name));
    expect(asked({})).toEqual(['hidden', 'of_a']);
    expect(asked({ widths: [5], kind: 'b', delay: 1 })).toEqual(['merge', 'of_others']);
    expect(asked({ widths: [5], hidden: 7 })).toEqual(['hidden', 'of_a']);
  });

  it('asks what matters first, whatever the order of the schema', () => {
    const reversed = { properties: Object.fromEntries(Object.entries(schema.properties ?? {}).reverse()) };
    const groups = formGroups(reversed, catalog, { model: { name: 'mlp' } });
    expect(groups.map(({ title }) => title)).toEqual(['Job', 'Training', 'Compression']);
    expect(groups[0]?.fields.slice(0, 4).map(({ pointer }) => pointer)).toEqual([
      '/name',
      '/model/name',
      '/model/params/hidden',
      '/dataset/name',
    ]);
  });

  it('offers every topology of the catalog, the one that is chosen by the workers too', () => {
    const exchange = { properties: { topology: { type: 'string', default: 'ring' } } } as JsonSchema;
    const fields = formGroups({ properties: { exchange } }, catalog, { exchange: { topology: 'auto' } });
    const [topology] = fields.flatMap((group) => group.fields);
    expect(topology?.schema).toMatchObject({ enum: ['ring', 'auto'], default: 'ring', description: 'About auto' });
  });

  it('offers the memories that the compressor works with', () => {
    const fields = formGroups(schema, catalog, { compression: { name: 'dgc' } }).flatMap((group) => group.fields);
    const memory = fields.find(({ pointer }) => pointer === '/compression/memory');
    expect(memory?.schema.enum).toEqual(['dgc']);
    expect(memory?.misfits).toEqual([{ choice: 'residual', reason: 'It masks.' }]);
  });

  it('offers the memories that fit what the mode exchanges, and takes the default from there', () => {
    const of_two = {
      memories: ['residual', 'dgc'],
      memory_misfits: { none: 'It leaves much out.' },
      default_memory: 'dgc',
      memory_for_differences: 'residual',
    };
    const local = {
      ...catalog,
      compressors: [entry('dgc', {}, of_two)],
      memories: [entry('none'), entry('residual'), entry('dgc', {}, { differences_misfit: 'It applies momentum.' })],
      modes: [
        entry('sync', {}, { exchanges: 'gradients' }),
        entry('local_sgd', {}, { exchanges: 'differences' }),
        entry('gossip', {}, { exchanges: 'models' }),
      ],
    } as unknown as Catalog;
    const memory = (mode: string, apply_to = 'gradients') =>
      formGroups(schema, local, { training: { mode }, compression: { name: 'dgc', apply_to } })
        .flatMap((group) => group.fields)
        .find(({ pointer }) => pointer === '/compression/memory')?.schema;
    expect(memory('sync')).toMatchObject({ enum: ['residual', 'dgc'], description: 'About dgc' });
    expect(memory('sync', 'models')).toMatchObject({ enum: ['residual'], description: 'About residual' });
    expect(memory('local_sgd')).toMatchObject({ enum: ['residual'], description: 'About residual' });
    expect(memory('gossip')).toMatchObject({ enum: ['none'], description: 'About none' });
  });

  it('takes the defaults of a memory from the compressor whose default memory it is', () => {
    const momentum = entry('residual', { properties: { beta: { type: 'number', default: 1 } } });
    const own = { memories: ['residual'], default_memory: 'residual', default_memory_params: { beta: 0.999 } };
    const compressors = [entry('demo', {}, own), entry('topk')];
    const with_demo = { ...catalog, compressors, memories: [momentum] } as Catalog;
    const compression = {
      properties: {
        name: { type: 'string' },
        memory: { type: ['string', 'null'] },
        memory_params: { type: 'object' },
      },
    } as JsonSchema;
    const beta = (compressor: string) =>
      formGroups({ properties: { compression } }, with_demo, { compression: { name: compressor, memory: 'residual' } })
        .flatMap((group) => group.fields)
        .find(({ pointer }) => pointer === '/compression/memory_params/beta')?.schema.default;
    expect(beta('demo')).toBe(0.999);
    expect(beta('topk')).toBe(1);
  });

  it('knows what a new choice makes meaningless', () => {
    expect(dependents('/compression/name', {})).toEqual([
      '/compression/params',
      '/compression/memory',
      '/compression/memory_params',
    ]);
    expect(dependents('/model/name', {})).toEqual(['/model/params']);
    expect(dependents('/resources/workers', {})).toEqual(['/resources/min_workers']);
  });

  it('keeps of a memory that nobody has named what the next one takes, too', () => {
    const numbers = (...names: string[]) => ({
      properties: Object.fromEntries(names.map((name) => [name, { type: 'number' }])),
    });
    const of_modes = {
      ...catalog,
      modes: [entry('sync', {}), { ...entry('diloco', {}), exchanges: 'differences' }],
      compressors: [{ ...entry('dgc', {}), default_memory: 'masking', memory_for_differences: 'plain' }],
      memories: [entry('masking', numbers('beta', 'clip')), entry('plain', numbers('beta'))],
    } as unknown as Catalog;
    const compression = { name: 'dgc', memory_params: { beta: 0.5, clip: 1 } };
    const stray = (mode: string, more = {}) =>
      dependents('/training/mode', { training: { mode }, compression: { ...compression, ...more } }, of_modes);
    expect(stray('sync')).toEqual(['/training/params']);
    expect(stray('diloco')).toEqual(['/training/params', '/compression/memory_params/clip']);
    expect(stray('diloco', { memory: 'masking' })).toEqual(['/training/params']);
    const models = { compression: { ...compression, apply_to: 'models' } };
    expect(dependents('/compression/apply_to', models, of_modes)).toEqual(['/compression/memory_params/clip']);
  });

  it('keeps of an optimizer what the next one takes, too', () => {
    const numbers = (...names: string[]) => ({
      properties: Object.fromEntries(names.map((name) => [name, { type: 'number' }])),
    });
    const optimizers = [entry('sgd', numbers('lr', 'momentum')), entry('adam', numbers('lr', 'beta1'))];
    const of_both = { ...catalog, optimizers } as unknown as Catalog;
    const adam = { training: { optimizer: { name: 'adam', lr: 0.1, momentum: 0.9 } } };
    expect(dependents('/training/optimizer/name', adam, of_both)).toEqual(['/training/optimizer/momentum']);
    const usual = { training: { optimizer: { lr: 0.1, momentum: 0.9 } } };
    expect(dependents('/training/optimizer/name', usual, of_both, 'sgd')).toEqual(['/training/optimizer/beta1']);
  });
});

describe('fields', () => {
  const one = (property: JsonSchema) => field(property, '/a', 'b');

  it('come from the schema, in its order', () => {
    const fields = fieldsOf(
      { properties: { batch_size: { type: 'integer' }, 'a/b': { type: ['string', 'null'] } } },
      '/x',
    );
    expect(fields.map(({ pointer, label, kind }) => [pointer, label, kind])).toEqual([
      ['/x/batch_size', 'Batch size', 'integer'],
      ['/x/a~1b', 'A/b', 'text'],
    ]);
  });

  it('say their range and default', () => {
    expect(rangeText({ exclusiveMinimum: 0, maximum: 1 })).toBe('> 0, ≤ 1');
    expect(defaultText({ default: 0.001 })).toBe('0.001');
    expect(defaultText({ default: null })).toBe('none');
    expect(defaultText({})).toBe('');
  });

  it('turn text into values of their type', () => {
    const ratio = one({ type: 'number', exclusiveMinimum: 0, maximum: 1 });
    expect(parseInput(ratio, '0.01')).toEqual({ value: 0.01 });
    expect(parseInput(ratio, ' ')).toEqual({ value: undefined });
    expect(parseInput(ratio, '0')).toEqual({ error: 'must be > 0, ≤ 1' });
    expect(parseInput(one({ type: 'integer', multipleOf: 64 }), '128')).toEqual({ value: 128 });
    expect(parseInput(one({ type: 'integer', multipleOf: 64 }), '100')).toEqual({ error: 'must be a multiple of 64' });
    expect(parseInput(ratio, 'lots')).toEqual({ error: 'is not a number' });
    expect(parseInput(one({ type: 'integer' }), '1.5')).toEqual({ error: 'is not a whole number' });
    expect(parseInput(one({ type: 'boolean' }), 'true')).toEqual({ value: true });
    expect(parseInput(one({ enum: [1, 'a'] }), '1')).toEqual({ value: 1 });
    expect(parseInput(one({ type: 'object' }), '{"cpu": 1}')).toEqual({ value: { cpu: 1 } });
    expect(parseInput(one({ type: 'object' }), '{')).toEqual({ error: 'is not JSON' });
  });
});

describe('pointers', () => {
  it('read and change without touching the original', () => {
    const spec = { training: { epochs: 2, 'a/b': 1 } };
    expect(getAt(spec, '/training/a~1b')).toBe(1);
    expect(getAt(spec, '/training/toString')).toBeUndefined();
    expect(setAt(spec, '/training/epochs', 3)).toEqual({ training: { epochs: 3, 'a/b': 1 } });
    expect(setAt(spec, '/model/name', 'lenet')).toMatchObject({ model: { name: 'lenet' } });
    expect(spec.training.epochs).toBe(2);
  });

  it('remove a value and what is empty without it', () => {
    expect(setAt({ a: { b: 1 }, c: 2 }, '/a/b', undefined)).toEqual({ c: 2 });
  });

  it('are safe with hostile names', () => {
    const result = setAt({}, '/__proto__/polluted', true);
    expect(Object.getPrototypeOf(result)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('put a fault at the deepest field that holds it', () => {
    const faults = [
      { pointer: '/training/optimizer/lr', detail: 'a' },
      { pointer: '/modle', detail: 'b' },
    ];
    const placed = faultsByPlace(faults, ['/training', '/training/optimizer/lr', '/model']);
    expect(placed.get('/training/optimizer/lr')?.[0]?.detail).toBe('a');
    expect(placed.get('')?.[0]?.detail).toBe('b');
  });
});
