import { describe, expect, it } from 'vitest';
import type { Job } from '../api/types';
import { best, columns, nextOrder, ordered } from './columns';
import { csvOf } from './csv';
import { labelsOf } from './labels';
import { idsOf, textOf, toggled } from './picks';
import { chosenOf, metricsText, orderText } from './query';
import { differences } from './spec_differences';

const job = (id: string, more: Partial<Job> = {}): Job => ({
  id,
  name: `name-${id}`,
  state: 'SUCCEEDED',
  phase: '',
  reason: null,
  spec: {},
  created_at: '2026-01-01T00:00:00Z',
  started_at: '2026-01-01T00:00:00Z',
  ended_at: '2026-01-01T00:01:00Z',
  step: 0,
  steps_total: null,
  summary: {},
  ...more,
});
const column = (id: string) => columns.find((one) => one.id === id)!;
const now = Date.parse('2026-01-01T00:00:10Z');

describe('the URL', () => {
  it('names each job once, and at most ten are compared', () => {
    expect(idsOf('a,b,,a,c')).toEqual(['a', 'b', 'c']);
    expect(idsOf(null)).toEqual([]);
    const many = Array.from({ length: 13 }, (_, index) => `job-${index}`);
    expect(chosenOf(new URLSearchParams({ jobs: many.join(',') }))).toMatchObject({
      ids: many.slice(0, 10),
      left: many.slice(10),
    });
  });

  it('holds what is chosen, and nothing of what is usual', () => {
    const query = new URLSearchParams('jobs=a,b&m=loss,bytes_sent&cost=seconds&sort=-accuracy');
    expect(chosenOf(query)).toEqual({
      ids: ['a', 'b'],
      left: [],
      metrics: ['loss', 'bytes_sent'],
      cost: 'seconds',
      order: { column: 'accuracy', descending: true },
    });
    const usual = chosenOf(new URLSearchParams('jobs=a,b'));
    expect(usual).toMatchObject({ metrics: ['accuracy', 'loss'], cost: 'bytes', order: null });
    expect(metricsText(usual.metrics)).toBeNull();
    expect(metricsText(['loss'])).toBe('loss');
    expect(orderText(usual.order)).toBeNull();
    expect(orderText({ column: 'ran', descending: false })).toBe('ran');
    expect(textOf([])).toBeNull();
  });

  it('takes nonsense for nothing', () => {
    expect(chosenOf(new URLSearchParams('m=<b>,a/b&cost=love&sort='))).toEqual({
      ids: [],
      left: [],
      metrics: ['accuracy', 'loss'],
      cost: 'bytes',
      order: null,
    });
  });

  it('a second tick takes a job out again', () => {
    expect(toggled(['a', 'b'], 'c')).toEqual(['a', 'b', 'c']);
    expect(toggled(['a', 'b', 'c'], 'b')).toEqual(['a', 'c']);
  });
});

describe('differences', () => {
  it('are the places that are not alike, sorted, and what each has there', () => {
    const dgc = { name: 'x', compression: { name: 'dgc', params: { ratio: 0.001 } }, training: { epochs: 2, lr: 0.1 } };
    const none = { name: 'y', compression: { name: 'none', params: {} }, training: { lr: 0.1, epochs: 2, seed: 7 } };
    expect(differences([dgc, none, dgc])).toEqual([
      { pointer: '/compression/name', values: ['dgc', 'none', 'dgc'] },
      { pointer: '/compression/params/ratio', values: ['0.001', null, '0.001'] },
      { pointer: '/training/seed', values: [null, '7', null] },
    ]);
  });

  it('lists are compared as a whole, and the order of keys is none', () => {
    const groups = (nodes: number) => ({ groups: [{ nodes, label: 'a' }], 'a/b': null });
    const turned = { 'a/b': null, groups: [{ label: 'a', nodes: 1 }] };
    expect(differences([groups(1), turned])).toEqual([]);
    expect(differences([groups(1), groups(2)])).toEqual([
      { pointer: '/groups', values: ['[{"label":"a","nodes":1}]', '[{"label":"a","nodes":2}]'] },
    ]);
    expect(differences([{ 'a/b': null }, {}])).toEqual([{ pointer: '/a~1b', values: ['null', null] }]);
  });

  it('a value is another thing than an object with values, and than nothing', () => {
    expect(differences([{ a: 1 }, { a: { b: 2 } }, {}])).toEqual([
      { pointer: '/a', values: ['1', null, null] },
      { pointer: '/a/b', values: [null, '2', null] },
    ]);
  });
});

describe('the table', () => {
  const jobs = [
    job('a', { summary: { accuracy: 0.9, bytes_sent: 300 } }),
    job('b', { summary: { accuracy: 0.95, bytes_sent: 400 }, state: 'FAILED' }),
    job('c', { summary: { bytes_sent: 100 }, state: 'RUNNING', ended_at: null }),
    job('d', { summary: { accuracy: 0.9, bytes_sent: 200 } }),
  ];
  const ids = (of: Job[]) => of.map(({ id }) => id).join('');

  it('is sorted by a column, and what has no value comes last both ways', () => {
    expect(ids(ordered(jobs, null, now))).toBe('abcd');
    expect(ids(ordered(jobs, { column: 'accuracy', descending: true }, now))).toBe('badc');
    expect(ids(ordered(jobs, { column: 'accuracy', descending: false }, now))).toBe('adbc');
    expect(ids(ordered(jobs, { column: 'ran', descending: false }, now))).toBe('cabd');
    expect(ids(ordered(jobs, { column: 'state', descending: false }, now))).toBe('bcad');
    expect(ids(ordered(jobs, { column: 'name', descending: true }, now))).toBe('dcba');
    expect(ids(ordered(jobs, { column: 'no such', descending: true }, now))).toBe('abcd');
  });

  it('marks the best; of totals only among jobs that have done all of their work', () => {
    expect([...best(column('accuracy'), jobs, now)]).toEqual(['b']);
    expect([...best(column('bytes_sent'), jobs, now)]).toEqual(['d']);
    expect([...best(column('accuracy'), [jobs[0]!, jobs[3]!, jobs[2]!], now)], 'all alike').toEqual([]);
    expect([...best(column('accuracy'), [jobs[0]!, jobs[2]!], now)], 'nothing to compare with').toEqual([]);
    const twins = [...jobs, job('e', { summary: { bytes_sent: 200 } })];
    expect([...best(column('bytes_sent'), twins, now)]).toEqual(['d', 'e']);
    expect([...best(column('mode'), jobs, now)]).toEqual([]);
  });

  it('says of a job that goes on that its time is not over', () => {
    expect(column('ran').text(jobs[0]!, now)).toBe('1 min 00 s');
    expect(column('ran').text(jobs[2]!, now)).toBe('10 s so far');
    expect(column('ran').text(job('f', { started_at: null, ended_at: null }), now)).toBe('–');
  });

  it('says how slow a slow job is', () => {
    const text = (samples_per_second: number) => {
      return column('samples_per_second').text(job('g', { summary: { samples_per_second } }), now);
    };
    expect([text(0.4), text(6011.6)]).toEqual(['0.4', '6,012']);
  });

  it('a heading sorts the best first, then the other way round, then not', () => {
    const accuracy = column('accuracy');
    const first = nextOrder(accuracy, null);
    const second = nextOrder(accuracy, first);
    expect([first, second, nextOrder(accuracy, second)]).toEqual([
      { column: 'accuracy', descending: true },
      { column: 'accuracy', descending: false },
      null,
    ]);
    expect(nextOrder(column('ran'), first)).toEqual({ column: 'ran', descending: false });
  });

  it('tells jobs of one name apart', () => {
    const named = (id: string, name: string) => job(id, { name });
    const labels = labelsOf([named('01ABCDEFGH', 'x'), named('b', 'y'), named('01ABCDZZZZ', 'x')]);
    expect(labels).toEqual(['x (CDEFGH)', 'y', 'x (CDZZZZ)']);
    expect(labelsOf([job('b', { name: '' })])).toEqual(['b']);
  });
});

describe('csvOf', () => {
  it('has the columns of the head, and quotes what needs it', () => {
    const points = [
      { x: 1, min: 0.5, max: 2, last: 1 },
      { x: 2, min: null, max: null, last: null },
    ];
    expect(csvOf([{ job: 'j,"1"', name: 'loss', points }])).toBe(
      'job,name,worker,x,min,max,last\r\n"j,""1""",loss,,1,0.5,2,1\r\n"j,""1""",loss,,2,nan,nan,nan\r\n',
    );
  });
});
