import { afterEach, describe, expect, it, vi } from 'vitest';
import { JobTraffic } from './traffic';

describe('JobTraffic', () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it('leaves a slow answer to come, unless something else is wanted', async () => {
    const asked: string[] = [];
    const answers: (() => void)[] = [];
    vi.stubGlobal('fetch', (path: string) => {
      asked.push(path);
      return new Promise((resolve) => answers.push(() => resolve(new Response('{}'))));
    });
    const traffic = new JobTraffic('a b');
    traffic.load(0, 'sampled');
    traffic.load(0, 'sampled');
    expect(asked).toEqual(['/api/v1/jobs/a%20b/traffic', '/api/v1/jobs/a%20b/trace?worker=0&step=sampled']);
    traffic.load(2, 'slowest');
    expect(asked.slice(2)).toEqual([
      '/api/v1/jobs/a%20b/traffic',
      '/api/v1/jobs/a%20b/trace?worker=2&step=slowest',
    ]);
    for (const answer of answers) answer();
    await vi.waitFor(() => expect(traffic.totals.loading.value || traffic.trace.loading.value).toBe(false));
    expect(traffic.trace.data.value).toEqual({ worker: 2, step: 'slowest', trace: {} });
    traffic.load(2, 'slowest');
    expect(asked).toHaveLength(6);
  });

  it('asks for no trace where no step is wanted', async () => {
    const asked: string[] = [];
    vi.stubGlobal('fetch', (path: string) => {
      asked.push(path);
      return Promise.resolve(new Response('{}'));
    });
    const traffic = new JobTraffic('a');
    for (const anew of [false, true]) {
      traffic.load(0, null, anew);
      await vi.waitFor(() => expect(traffic.totals.loading.value).toBe(false));
    }
    expect(asked).toEqual(['/api/v1/jobs/a/traffic', '/api/v1/jobs/a/traffic']);
    expect(traffic.totals.data.value).toEqual({});
    expect(traffic.trace.data.value).toBeNull();
  });

  it('reads what is wanted anew, whatever is under way', async () => {
    const answers: ((body: string) => void)[] = [];
    vi.stubGlobal(
      'fetch',
      () => new Promise((resolve) => answers.push((body) => resolve(new Response(body)))),
    );
    const traffic = new JobTraffic('a');
    traffic.load(0, 'sampled');
    traffic.load(0, 'sampled', true);
    expect(answers).toHaveLength(4);
    for (const [index, answer] of answers.entries()) answer(index < 2 ? '{"of": "before"}' : '{"of": "the end"}');
    await vi.waitFor(() => expect(traffic.totals.loading.value || traffic.trace.loading.value).toBe(false));
    expect(traffic.totals.data.value).toEqual({ of: 'the end' });
    expect(traffic.trace.data.value).toEqual({ worker: 0, step: 'sampled', trace: { of: 'the end' } });
  });
});
