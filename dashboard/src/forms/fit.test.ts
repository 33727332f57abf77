import { describe, expect, it } from 'vitest';
import type { Catalog, Spec } from '../api/types';
import { exchanged } from './chosen';
import { misfit } from './fit';
import { formGroups, type FormField } from './job_form';
import type { JsonSchema } from './schema';

const entry = (name: string, more = {}) => ({ name, summary: `About ${name}`, params: {}, ...more });

/** Two values of a parameter, of which the other than the default does not vote. */
const vote = {
  params: { properties: { sign: { type: 'boolean', default: true } } },
  memory_misfits: { ef21: 'There is no mean.' },
  differences_misfit: 'It votes on differences.',
  traits: { votes: true },
  variants: [
    {
      params: { sign: true },
      votes: true,
      memory_misfits: { ef21: 'There is no mean.' },
      differences_misfit: 'It votes on differences.',
    },
    { params: { sign: false }, votes: false, memory_misfits: {} },
  ],
};
const catalog = {
  models: [entry('lenet')],
  datasets: [entry('fashion-mnist')],
  compressors: [
    entry('none', { memory_misfits: {}, default_memory: 'none', traits: { lossless: true, passes: ['sum'] } }),
    entry('topk', {
      memory_misfits: {},
      default_memory: 'residual',
      partners_misfit: 'It sends some entries.',
      traits: { passes: ['gather'] },
    }),
    entry('powersgd', {
      memory_misfits: {},
      default_memory: 'ef21',
      owners_misfit: 'Its mean is no payload.',
      regions_misfit: 'It chooses no entries.',
      neighbours_misfit: 'It takes several passes.',
      pushes_misfit: 'It keeps state.',
    }),
    entry('demo', vote),
  ],
  memories: [
    entry('none'),
    entry('residual'),
    entry('dgc', { differences_misfit: 'It applies momentum.' }),
    entry('ef21', { pushes_misfit: 'It needs the mean.' }),
  ],
  modes: [
    entry('sync', { exchanges: 'gradients' }),
    entry('local_sgd', { exchanges: 'differences' }),
    entry('gossip', { exchanges: 'models', topologies: ['ring'] }),
    entry('async', {
      exchanges: 'pushes',
      roles: { server: { count: 'servers' } },
      params: { properties: { servers: { type: 'integer', default: 1, description: 'How many servers.' } } },
    }),
    entry('watched', { exchanges: 'differences', roles: { state_server: { count: 1 } } }),
    entry('local', { exchanges: 'nothing' }),
  ],
  topologies: [
    entry('ring', { gathers: 'all' }),
    entry('two_hop', { gathers: 'owners' }),
    entry('split_gather', { gathers: 'regions' }),
    entry('multi_hop', { gathers: 'partners' }),
  ],
  optimizers: [entry('sgd')],
  lr_schedules: [entry('constant')],
} as unknown as Catalog;

const schema: JsonSchema = {
  properties: {
    training: { properties: { mode: { type: 'string', default: 'sync' }, params: { type: 'object' } } },
    compression: {
      properties: {
        name: { type: 'string', default: 'none' },
        params: { type: 'object' },
        memory: { type: ['string', 'null'] },
        apply_to: { type: 'string', enum: ['gradients', 'models'], default: 'gradients' },
        aggregation: { type: 'string', enum: ['mean', 'sum', 'min'], default: 'mean' },
      },
    },
    resources: {
      properties: {
        per_worker: { type: 'object' },
        per_server: { type: 'object' },
        per_state_server: { type: 'object' },
      },
    },
  },
};
const fields = (mode: string, compression = {}) =>
  new Map(
    formGroups(schema, catalog, { training: { mode }, compression })
      .flatMap((group) => group.fields)
      .map((field): [string, FormField] => [field.pointer, field]),
  );
/** What can be chosen at a place, and what cannot, with the reasons. */
const offered = (mode: string, place: string, compression = {}) => {
  const field = fields(mode, compression).get(`/compression/${place}`)!;
  return [field.schema.enum, Object.fromEntries(field.misfits.map(({ choice, reason }) => [choice, reason]))];
};

describe('compressors', () => {
  it('that do not fit what the mode exchanges are told apart, with the reason', () => {
    expect(offered('sync', 'name')).toEqual([['none', 'topk', 'powersgd', 'demo'], {}]);
    expect(offered('local_sgd', 'name')).toEqual([['none', 'topk', 'powersgd'], { demo: 'It votes on differences.' }]);
    expect(offered('gossip', 'name')).toEqual([['none', 'topk', 'demo'], { powersgd: 'It takes several passes.' }]);
    expect(offered('async', 'name')).toEqual([['none', 'topk', 'demo'], { powersgd: 'It keeps state.' }]);
    expect(offered('local', 'name')[0]).toEqual(['none']);
  });

  it('fit by the values of their parameters, if they are chosen', () => {
    const demo = (params: object) => ({ name: 'demo', params });
    expect(offered('local_sgd', 'name', demo({ sign: false }))[1]).toEqual({});
    expect(offered('local_sgd', 'name', demo({ sign: true }))[1]).toEqual({ demo: 'It votes on differences.' });
    expect(offered('local_sgd', 'name', { name: 'topk', params: { sign: false } })[1]).toHaveProperty('demo');
    expect(offered('sync', 'memory', demo({ sign: false }))[1]).toEqual({});
    expect(offered('sync', 'memory', demo({}))[1]).toEqual({ ef21: 'There is no mean.' });
  });
});

describe('memories of a compressor whose error depends on a number', () => {
  const big = { memory_misfits: { residual: 'Its error is large.' } };
  const qsgd = {
    params: { properties: { bits: { type: 'integer', default: 4 }, bucket: { type: 'integer', default: 512 } } },
    memory_misfits: {},
    variants: [
      { params: { bits: 1 }, ...big },
      { params: { bits: 4, bucket: { maximum: 896 } }, memory_misfits: {} },
      { params: { bits: 4, bucket: { minimum: 960 } }, ...big },
    ],
  };
  const with_qsgd = { ...catalog, compressors: [entry('qsgd', qsgd)] } as unknown as Catalog;
  const why = (params: object) =>
    misfit('/compression/memory', 'residual', with_qsgd, { compression: { name: 'qsgd', params } });

  it('fit within its limits', () => {
    expect(why({})).toBeNull();
    expect(why({ bucket: 896 })).toBeNull();
    expect(why({ bucket: 960 })).toBe('Its error is large.');
    expect(why({ bits: 1 })).toBe('Its error is large.');
  });

  it('are told if the usual one does not fit', () => {
    const memory = (params: object) => {
      const usual = { ...with_qsgd, compressors: [entry('qsgd', { ...qsgd, default_memory: 'residual' })] };
      const groups = formGroups(schema, usual as unknown as Catalog, { compression: { name: 'qsgd', params } });
      return groups.flatMap((group) => group.fields).find(({ pointer }) => pointer === '/compression/memory');
    };
    expect(memory({})).toMatchObject({ fault: null, schema: { default: 'residual' } });
    expect(memory({ bits: 1 })?.fault).toBe('residual does not fit: Its error is large.');
  });
});

describe('memories', () => {
  it('fit what the mode exchanges: pushes, models or differences', () => {
    const memory = (mode: string) => offered(mode, 'memory', { name: 'topk' });
    expect(memory('sync')).toEqual([['none', 'residual', 'dgc', 'ef21'], {}]);
    expect(memory('local_sgd')).toEqual([['none', 'residual', 'ef21'], { dgc: 'It applies momentum.' }]);
    expect(memory('async')).toEqual([['none', 'residual', 'dgc'], { ef21: 'It needs the mean.' }]);
    const [offers, why] = memory('gossip');
    expect(offers).toEqual(['none']);
    expect(Object.keys(why as object)).toEqual(['residual', 'dgc', 'ef21']);
  });
});

describe('what is exchanged and what is made of it', () => {
  it('models: where workers exchange gradients with each other, or differences in any case', () => {
    const models: Spec = { compression: { apply_to: 'models' } };
    expect(exchanged(catalog, models)).toBe('differences');
    expect(exchanged(catalog, { ...models, training: { mode: 'async' } })).toBe('pushes');
    for (const mode of ['sync', 'local_sgd']) expect(offered(mode, 'apply_to')[1]).toEqual({});
    for (const mode of ['gossip', 'async', 'local']) expect(offered(mode, 'apply_to')[0]).toEqual(['gradients']);
  });

  it('aggregations: the mean alone with servers, neighbours and votes', () => {
    for (const mode of ['gossip', 'async', 'local']) expect(offered(mode, 'aggregation')[0]).toEqual(['mean']);
    expect(offered('sync', 'aggregation', { name: 'demo' })[0]).toEqual(['mean']);
    expect(offered('sync', 'aggregation', { name: 'demo', params: { sign: false } })[0]).toEqual(['mean', 'sum']);
  });

  it('aggregations: the smallest of uncompressed values only', () => {
    expect(offered('sync', 'aggregation')[0]).toEqual(['mean', 'sum', 'min']);
    expect(offered('sync', 'aggregation', { memory: 'residual' })[0]).toEqual(['mean', 'sum']);
    expect(offered('sync', 'aggregation', { name: 'topk', memory: 'none' })[0]).toEqual(['mean', 'sum']);
  });

  it('topologies: those that the mode works over', () => {
    const why = (mode: string, topology: string) =>
      misfit('/exchange/topology', topology, catalog, { training: { mode } });
    expect(why('gossip', 'ring')).toBeNull();
    expect(why('gossip', 'tree')).toBe('the mode gossip works over ring only');
    expect(why('sync', 'tree')).toBeNull();
  });

  it('topologies: those that carry what the compressor sends', () => {
    const why = (name: string, topology: string) =>
      misfit('/exchange/topology', topology, catalog, { compression: { name } });
    for (const topology of ['ring', 'two_hop', 'split_gather']) expect(why('topk', topology)).toBeNull();
    expect(why('topk', 'multi_hop')).toBe('It sends some entries.');
    expect(why('powersgd', 'ring')).toBeNull();
    expect(why('powersgd', 'two_hop')).toBe('Its mean is no payload.');
    expect(why('powersgd', 'split_gather')).toBe('It chooses no entries.');
    expect(why('powersgd', 'multi_hop')).toBeNull();
  });

  it('topologies: those for the number of workers, and for workers with GPUs', () => {
    const topologies = [
      entry('butterfly', { workers: 'power_of_two' }),
      entry('links', { on_devices: true }),
      entry('ring', { workers: 'any', on_devices: false }),
    ];
    const why = (topology: string, resources: object) =>
      misfit('/exchange/topology', topology, { ...catalog, topologies } as unknown as Catalog, { resources });
    for (const workers of [1, 2, 64]) expect(why('butterfly', { workers })).toBeNull();
    expect(why('butterfly', { workers: 6 })).toBe('it works for 1, 2, 4, 8, … workers, and the job has 6');
    expect(why('ring', { workers: 6 })).toBeNull();
    expect(why('links', { per_worker: { cpu: 1 } })).toMatch(/between GPUs/);
    expect(why('links', { per_worker: { gpu: 0.5 } })).toMatch(/between GPUs/);
    expect(why('links', { per_worker: { gpu: 1 } })).toBeNull();
  });

  it('transports: not where the topology has its own, or nothing is sent', () => {
    const topologies = [entry('ring'), entry('links', { on_devices: true })];
    const with_links = { ...catalog, topologies } as unknown as Catalog;
    const why = (mode: string, topology: string, transport = 'tcp') =>
      misfit('/exchange/transport', transport, with_links, { training: { mode }, exchange: { topology } });
    expect(why('sync', 'ring')).toBeNull();
    expect(why('sync', 'links')).toBe('the topology links chooses its own');
    expect(why('sync', 'links', 'auto')).toBeNull();
    expect(why('local', 'ring')).toBe('one worker exchanges nothing');
  });

  it('other places know no misfits', () => {
    expect(misfit('/training/mode', 'async', catalog, {})).toBeNull();
  });
});

describe('modes', () => {
  it('have resources of the processes beside their workers', () => {
    const resources = (mode: string) => [...fields(mode).keys()].filter((pointer) => pointer.startsWith('/resources'));
    expect(resources('sync')).toEqual(['/resources/per_worker']);
    expect(resources('async')).toEqual(['/resources/per_worker', '/resources/per_server']);
    expect(resources('watched')).toEqual(['/resources/per_worker', '/resources/per_state_server']);
  });

  it('tell of resources that are left from another mode', () => {
    const left = { training: { mode: 'sync' }, resources: { per_server: { cpu: 2 } } };
    const told = formGroups(schema, catalog, left)
      .flatMap((group) => group.fields)
      .find(({ pointer }) => pointer === '/resources/per_server');
    expect(told?.fault).toBe('must be left out: the mode sync has no server');
  });

  it('have their own parameters, with what they mean', () => {
    expect(fields('async').get('/training/params/servers')?.schema.description).toBe('How many servers.');
    expect(fields('sync').has('/training/params/servers')).toBe(false);
  });
});

/** Parts of a compression with and without a momentum, and an optimizer of each kind. */
const with_momenta = {
  ...catalog,
  compressors: [
    entry('topk', { default_memory: 'residual', traits: { thins: true } }),
    entry('signs', { default_memory: 'none', traits: { votes: true } }),
    entry('own', { default_memory: 'none', traits: { owns_momentum: true } }),
  ],
  memories: [
    entry('none'),
    entry('residual'),
    entry('before', { owns_momentum: true }),
    entry('instead', {
      params: { properties: { momentum: { type: 'number', default: 0 } } },
      momentum_params: ['momentum'],
    }),
  ],
  optimizers: [
    entry('sgd', {
      yields_momentum: true,
      params: { properties: { momentum: { type: 'number', default: 0.9 }, nesterov: { type: 'boolean' } } },
    }),
    entry('adam', { yields_momentum: false }),
  ],
} as unknown as Catalog;

describe('optimizers', () => {
  const why = (choice: string, compression: object) =>
    misfit('/training/optimizer/name', choice, with_momenta, { compression });

  it('with moments of their own fit no compression with a momentum', () => {
    const instead = (memory_params: object) => ({ name: 'topk', memory: 'instead', memory_params });
    expect(why('adam', { name: 'topk' })).toBeNull();
    expect(why('adam', { name: 'own' })).toMatch(/keeps moments.* the compressor own has a momentum/);
    expect(why('adam', { name: 'topk', memory: 'before' })).toMatch(/the memory before applies the optimizer’s/);
    expect(why('adam', instead({}))).toBeNull();
    expect(why('adam', instead({ momentum: 0.9 }))).toMatch(/the memory instead .* unless its momentum is left out/);
  });

  it('that can do without fit any', () => {
    for (const name of ['topk', 'signs', 'own']) expect(why('sgd', { name })).toBeNull();
    expect(why('sgd', { name: 'topk', memory: 'before' })).toBeNull();
  });

  it('apply Nesterov’s momentum only where they have one', () => {
    const nesterov = (choice: string, optimizer: object, compression = {}) =>
      misfit('/training/optimizer/nesterov', choice, with_momenta, { training: { optimizer }, compression });
    expect(nesterov('true', { name: 'sgd' })).toBeNull();
    expect(nesterov('true', { name: 'sgd', momentum: 0 })).toBe('it needs a momentum above 0');
    expect(nesterov('false', { name: 'sgd', momentum: 0 })).toBeNull();
    expect(nesterov('true', { name: 'sgd' }, { name: 'own' })).toMatch(/the compressor own has a momentum/);
  });
});

describe('the place where gradients are limited', () => {
  const where = (mode: string, compression: object, clip: object = { norm: 1 }, choice = 'global') =>
    misfit('/training/clip/where', choice, with_momenta, { training: { mode, clip }, compression });

  it('is their mean only if workers agree on one', () => {
    expect(where('sync', { name: 'topk' })).toBeNull();
    expect(where('sync', { name: 'signs' })).toMatch(/agree on signs/);
    expect(where('sync', { name: 'own' })).toMatch(/the compressor own adds up gradients/);
    expect(where('sync', { name: 'topk', memory: 'before' })).toMatch(/the memory before adds up gradients/);
    expect(where('sync', { name: 'topk', apply_to: 'models' })).toMatch(/exchange models/);
    expect(where('gossip', { name: 'topk' })).toMatch(/exchange models/);
    expect(where('async', { name: 'topk' })).toMatch(/servers apply/);
    expect(where('local', { name: 'topk' })).toBeNull();
  });

  it('does not matter without a limit, nor to each worker’s own', () => {
    expect(where('sync', { name: 'signs' }, { norm: null, value: null })).toBeNull();
    expect(where('sync', { name: 'signs' }, { value: 0.5 })).not.toBeNull();
    expect(where('sync', { name: 'signs' }, { norm: 1 }, 'local')).toBeNull();
  });
});

describe('workers that are told to send less', () => {
  const topologies = [entry('ring'), entry('links', { on_devices: true })];
  const why = (name: string, topology: string, choice = 'true') =>
    misfit('/training/params/adapt_compression', choice, { ...with_momenta, topologies } as unknown as Catalog, {
      compression: { name },
      exchange: { topology },
    });

  it('have a compressor that chooses entries, and sockets', () => {
    expect(why('topk', 'ring')).toBeNull();
    expect(why('own', 'ring')).toBe('workers can send fewer entries with topk only, and the compressor is own');
    expect(why('own', 'ring', 'false')).toBeNull();
    expect(why('topk', 'links')).toMatch(/sockets.* the topology links/);
  });
});
