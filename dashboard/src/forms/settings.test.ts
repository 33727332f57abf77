import { describe, expect, it } from 'vitest';
import type { Catalog, Spec } from '../api/types';
import { formGroups } from './job_form';
import type { JsonSchema } from './schema';
import { closedBecause, valueMisfit } from './settings';

const entry = (name: string, more = {}) => ({ name, summary: `About ${name}`, params: {}, ...more });
const momentum = { properties: { momentum: { type: 'number', default: 0 } } };
const catalog = {
  models: [entry('lenet')],
  datasets: [
    entry('clothes', { needs_path: false, has_files: true }),
    entry('photos', { needs_path: true, has_files: true }),
    entry('noise', { needs_path: false, has_files: false }),
  ],
  compressors: [
    entry('none', { default_memory: 'none', traits: { lossless: true } }),
    entry('topk', { default_memory: 'ef21', traits: {} }),
    entry('own', { default_memory: 'none', traits: { owns_momentum: true } }),
  ],
  memories: [entry('none'), entry('ef21', { params: momentum, momentum_params: ['momentum'] })],
  modes: [
    entry('sync', { exchanges: 'gradients' }),
    entry('diloco', { exchanges: 'differences' }),
    entry('gossip', { exchanges: 'models' }),
    entry('async', { exchanges: 'pushes' }),
    entry('local', { exchanges: 'nothing' }),
  ],
  topologies: [entry('ring'), entry('links', { on_devices: true })],
  optimizers: [
    entry('sgd', { yields_momentum: true, params: { properties: { momentum: { type: 'number', default: 0.9 } } } }),
    entry('adam', { yields_momentum: false }),
  ],
  lr_schedules: [entry('constant')],
} as unknown as Catalog;

const closed = (pointer: string, spec: Spec) => closedBecause(pointer, catalog, spec);
const fault = (pointer: string, spec: Spec) => valueMisfit(pointer, catalog, spec);

describe('a setting is closed', () => {
  it('to a learning rate where the mode has one in its place', () => {
    const lr = (params: object) => closed('/training/optimizer/lr', { training: { params } });
    expect(lr({})).toBeNull();
    expect(lr({ local_lr: null })).toBeNull();
    expect(lr({ local_lr: 0.1 })).toBe('the local_lr of the mode takes its place');
  });

  it('to a momentum of the optimizer where the compression has one in its place', () => {
    const why = (name: string, optimizer = 'sgd') =>
      closed('/training/optimizer/momentum', { training: { optimizer: { name: optimizer } }, compression: { name } });
    expect(why('topk')).toBeNull();
    expect(why('own')).toMatch(/^the compressor own has a momentum/);
    expect(why('own', 'adam'), 'told at the optimizer').toBeNull();
  });

  it('to a momentum of the memory where workers exchange differences', () => {
    const why = (mode: string, memory: string | null = null) =>
      closed('/compression/memory_params/momentum', { training: { mode }, compression: { name: 'topk', memory } });
    expect(why('sync')).toBeNull();
    expect(why('diloco', 'ef21')).toMatch(/differences/);
    expect(why('diloco', 'none')).toBeNull();
  });

  it('to sizes of buckets where nothing goes in buckets', () => {
    const why = (mode: string, name = 'topk') =>
      closed('/exchange/bucket_bytes', { training: { mode }, compression: { name } });
    for (const mode of ['sync', 'diloco', 'gossip']) expect(why(mode)).toBeNull();
    expect(why('gossip', 'none')).toMatch(/as a whole/);
    expect(why('async')).toMatch(/push each tensor by itself/);
    expect(why('local')).toMatch(/exchanges nothing/);
  });

  it('to workers where there is one, and to a path where there are no files', () => {
    expect(closed('/resources/workers', { training: { mode: 'local' } })).toMatch(/one worker/);
    expect(closed('/resources/workers', { training: { mode: 'sync' } })).toBeNull();
    expect(closed('/dataset/path', { dataset: { name: 'noise' } })).toBe('the dataset noise has no files');
    expect(closed('/dataset/path', { dataset: { name: 'clothes' } })).toBeNull();
  });

  it('to resources of processes that there are none of', () => {
    expect(closed('/resources/per_worker', { training: { mode: 'sync' } })).toBeNull();
    expect(closed('/resources/per_state_server', { training: { mode: 'sync' } })).toBe(
      'the mode sync has no state server',
    );
  });
});

describe('a value does not fit', () => {
  it('if a dataset has no usual place and none is given', () => {
    expect(fault('/dataset/path', { dataset: { name: 'photos', path: null } })).toMatch(/say where it is/);
    expect(fault('/dataset/path', { dataset: { name: 'photos', path: '/data' } })).toBeNull();
    expect(fault('/dataset/path', { dataset: { name: 'clothes' } })).toBeNull();
  });

  it('if it is of more workers than there are', () => {
    const resources = { workers: 1 };
    const slowdown = (list: number[]) =>
      fault('/training/params/slowdown', { training: { params: { slowdown: list } }, resources });
    expect(slowdown([2])).toBeNull();
    expect(slowdown([2, 1])).toBe('has 2 entries, and the job has 1 worker');
    const servers = (count: number) =>
      fault('/exchange/params/servers', { exchange: { params: { servers: count } }, resources });
    expect(servers(1)).toBeNull();
    expect(servers(2)).toBe('there is at most one on each worker, and the job has 1');
  });

  it('if it limits sockets that nothing goes through', () => {
    const why = (link_rate: string[], topology: string, mode = 'sync') =>
      fault('/training/params/link_rate', {
        training: { mode, params: { link_rate } },
        exchange: { topology },
        resources: { workers: 2 },
      });
    expect(why(['1mbit'], 'ring')).toBeNull();
    expect(why(['1mbit'], 'links')).toMatch(/the topology links sends past them/);
    expect(why(['none'], 'links')).toBeNull();
    expect(why(['1mbit'], 'ring', 'local')).toMatch(/exchanges nothing/);
    expect(why(['none', 'none', '1mbit'], 'links')).toMatch(/^has 3 entries/);
  });
});

describe('fields of the form', () => {
  const schema: JsonSchema = {
    properties: {
      training: {
        properties: {
          mode: { type: 'string', default: 'sync' },
          params: { type: 'object', default: {} },
          optimizer: { default: {}, properties: { name: { type: 'string', default: 'sgd' } } },
        },
      },
      compression: { properties: { name: { type: 'string', default: 'none' } } },
      dataset: {
        properties: {
          partition: { type: 'string', default: 'iid' },
          dirichlet_alpha: { type: 'number', default: 0.5, onlyWhere: { partition: { const: 'dirichlet' } } },
        },
      },
    },
  };
  const at = (pointer: string, spec: Spec, of = catalog) =>
    formGroups(schema, of, spec)
      .flatMap(({ fields }) => fields)
      .find((field) => field.pointer === pointer);

  it('that are closed have a fault if something is there', () => {
    const momentum = (optimizer: object) =>
      at('/training/optimizer/momentum', { training: { optimizer }, compression: { name: 'own' } });
    expect(momentum({})).toMatchObject({ closed: expect.stringContaining('own'), fault: null });
    expect(momentum({ momentum: 0.5 })?.fault).toMatch(/^must be left out: the compressor own/);
    for (const harmless of [0, 0.9]) expect(momentum({ momentum: harmless })?.fault).toBeNull();
    expect(at('/training/optimizer/momentum', { training: { optimizer: { momentum: 0.5 } } })).toMatchObject({
      closed: null,
      fault: null,
    });
  });

  it('have a fault if what was chosen fits no more', () => {
    const name = (optimizer: string, compressor: string) =>
      at('/training/optimizer/name', {
        training: { optimizer: { name: optimizer } },
        compression: { name: compressor },
      });
    expect(name('adam', 'topk')?.fault).toBeNull();
    expect(name('adam', 'own')?.fault).toMatch(/^adam does not fit: it keeps moments of its own/);
    expect(name('sgd', 'own')).toMatchObject({ fault: null, schema: { enum: ['sgd'] } });
  });

  it('have a fault if they do not fit the parameters beside them', () => {
    const params = {
      properties: {
        period: { type: 'integer', default: 4 },
        fragments: { type: 'integer', default: 1, atMost: 'period' },
        delay: { type: 'integer', default: 0 },
        merge: { type: 'number', default: 0.5, onlyWhere: { delay: { minimum: 1 } } },
      },
      productsAtMost: [{ of: ['period', 'delay'], maximum: 100, what: 'steps' }],
    };
    const of = { ...catalog, modes: [entry('sync', { params })] } as unknown as Catalog;
    const told = (name: string, given: object) => at(`/training/params/${name}`, { training: { params: given } }, of);
    expect(told('fragments', { fragments: 4 })?.fault).toBeNull();
    expect(told('fragments', { fragments: 5 })?.fault).toBe('must be at most period, which is 4');
    expect(told('fragments', { fragments: 5, period: 8 })?.fault).toBeNull();
    expect(told('merge', { merge: 0.5 })?.fault, 'the default').toBeNull();
    expect(told('merge', { merge: 0.25 })?.fault).toBe('has no effect with this delay: leave it out');
    expect(told('merge', { merge: 0.25, delay: 1 })?.fault).toBeNull();
    expect(told('delay', { delay: 25 })?.fault).toBeNull();
    expect(told('delay', { delay: 26 })?.fault).toMatch(/^makes too many steps: period × delay is 104, .* most 100$/);
  });

  it('are asked for where they change something, or are there', () => {
    const alpha = (dataset: object) => at('/dataset/dirichlet_alpha', { dataset });
    expect(alpha({})).toBeUndefined();
    expect(alpha({ partition: 'dirichlet' })).toMatchObject({ fault: null });
    expect(alpha({ dirichlet_alpha: 0.5 })).toMatchObject({ fault: null });
    expect(alpha({ dirichlet_alpha: 0.1 })?.fault).toBe('has no effect with this partition: leave it out');
  });

  it('of a choice of yes or no have a misfit, too', () => {
    const properties = { momentum: { type: 'number', default: 0 }, nesterov: { type: 'boolean', default: false } };
    const of = { ...catalog, optimizers: [entry('sgd', { params: { properties } })] } as unknown as Catalog;
    const nesterov = (optimizer: object) => at('/training/optimizer/nesterov', { training: { optimizer } }, of);
    expect(nesterov({})).toMatchObject({ misfits: [{ choice: 'true' }], fault: null });
    expect(nesterov({ nesterov: true })?.fault).toMatch(/^true does not fit: it needs a momentum above 0/);
    expect(nesterov({ nesterov: true, momentum: 0.9 })).toMatchObject({ misfits: [], fault: null });
  });
});
