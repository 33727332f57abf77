import { describe, expect, it } from 'vitest';
import type { LivePoint, Metrics as Answer } from '../api/types';
import { Metrics, pointsMax, type MetricsQuery } from './metrics';

/** A head whose answers the test gives when it likes. */
function head(names: readonly string[] | null = null) {
  const asked: { query: MetricsQuery; answer: (series: Answer['series']) => void; signal: AbortSignal }[] = [];
  const read = (query: MetricsQuery, signal: AbortSignal) =>
    new Promise<Answer>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('aborted')));
      asked.push({ query, signal, answer: (series) => resolve({ job: 'a', x: query.x, series }) });
    });
  return { asked, metrics: new Metrics(read, 500, names === null ? {} : { names, worker: 'all' }) };
}

const loss = (step: number, value: number, worker: number | null = null): LivePoint => [
  'loss',
  worker,
  step,
  step / 10,
  step * 100,
  value,
];
const xs = (metrics: Metrics, worker: number | null = null) => metrics.line('loss', worker).points.map(({ x }) => x);

describe('Metrics', () => {
  it('reads the history once, at the width of the charts, then lives off the stream', async () => {
    const { asked, metrics } = head();
    const loading = metrics.load();
    expect(asked[0]!.query).toEqual({ worker: 'job', x: 'step', points: 500 });
    metrics.append([loss(3, 1), loss(4, 1)]);
    asked[0]!.answer([
      {
        name: 'loss',
        worker: null,
        points: [
          [1, 0, 0, 0],
          [3, 1, 1, 1],
        ],
      },
    ]);
    await loading;
    metrics.append([loss(4, 1), loss(5, 1)]);
    expect(xs(metrics)).toEqual([1, 3, 4, 5]);
    expect(asked).toHaveLength(1);
  });

  it('of some names: asks for these of every rank, and takes no others from the stream', async () => {
    const { asked, metrics } = head(['staleness', 'loss']);
    const loading = metrics.load();
    expect(asked[0]!.query).toEqual({ worker: 'all', x: 'step', points: 500, name: 'staleness,loss' });
    asked[0]!.answer([{ name: 'loss', worker: 2, points: [[1, 0, 0, 0]] }]);
    await loading;
    metrics.append([loss(2, 1, 2), ['accuracy', null, 2, 0.2, 200, 0.5]]);
    expect(xs(metrics, 2)).toEqual([1, 2]);
    expect(metrics.line('accuracy', null).points).toEqual([]);
    void metrics.setZoom({ from: 0, to: 9 });
    expect(asked[1]!.query).toMatchObject({ worker: 'all', name: 'staleness,loss', from: 0, to: 9 });
  });

  it('takes live points on the axis that is shown', async () => {
    const { asked, metrics } = head();
    const changing = metrics.setAxis('bytes');
    asked[0]!.answer([{ name: 'loss', worker: null, points: [[100, 1, 1, 1]] }]);
    await changing;
    metrics.append([loss(2, 1)]);
    expect(asked[0]!.query.x).toBe('bytes');
    expect(xs(metrics)).toEqual([100, 200]);
    metrics.append([['loss', null, 3, 0.3, 200, 1]]); // a step that sent nothing
    expect(xs(metrics)).toEqual([100, 200, 200]);
  });

  it('drops an answer that a later question has overtaken', async () => {
    const { asked, metrics } = head();
    const first = metrics.load();
    const second = metrics.setAxis('wall');
    expect(asked[0]!.signal.aborted).toBe(true);
    asked[1]!.answer([{ name: 'loss', worker: null, points: [[0.1, 1, 1, 1]] }]);
    await Promise.all([first, second]);
    expect(xs(metrics)).toEqual([0.1]);
  });

  it('zooms at once with what it has, then in full detail, and keeps the whole', async () => {
    const { asked, metrics } = head();
    const loading = metrics.load();
    asked[0]!.answer([
      {
        name: 'loss',
        worker: null,
        points: [
          [10, 0, 0, 0],
          [20, 0, 0, 0],
          [30, 0, 0, 0],
        ],
      },
    ]);
    await loading;
    const zooming = metrics.setZoom({ from: 15, to: 25 });
    expect(xs(metrics)).toEqual([20]);
    asked[1]!.answer([
      {
        name: 'loss',
        worker: null,
        points: [
          [16, 0, 0, 0],
          [18, 0, 0, 0],
          [24, 0, 0, 0],
        ],
      },
    ]);
    await zooming;
    expect(asked[1]!.query).toMatchObject({ from: 15, to: 25, points: 500 });
    expect(xs(metrics)).toEqual([16, 18, 24]);
    metrics.append([loss(31, 0)]);
    expect(xs(metrics)).toEqual([16, 18, 24]);
    await metrics.setZoom(null);
    expect(xs(metrics)).toEqual([10, 20, 30, 31]);
    expect(asked).toHaveLength(2);
  });

  it('follows a restarted job back to its checkpoint, once for each series', async () => {
    const { asked, metrics } = head();
    const loading = metrics.load();
    const points = [1, 2, 3, 4].map((x) => [x, 9, 9, 9]);
    asked[0]!.answer([{ name: 'loss', worker: null, points }]);
    await loading;
    metrics.append([loss(5, 9)]);
    metrics.append([loss(3, 7)], 1);
    metrics.append([loss(3, 7), loss(4, 8)], 1);
    expect(metrics.line('loss', null).points.map(({ x, last }) => [x, last])).toEqual([
      [1, 9],
      [2, 9],
      [3, 7],
      [4, 8],
    ]);
  });

  describe('read anew', () => {
    const steps = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);
    const history = (last: number, value: number) => [
      { name: 'loss', worker: null, points: steps(1, last).map((x) => [x, value, value, value]) },
    ];
    const points = (metrics: Metrics) => metrics.line('loss', null).points.map(({ x, last }) => [x, last]);

    /** Has the history of steps 1 to 3 and live ones of 4 to 6. */
    async function running() {
      const { asked, metrics } = head();
      const loading = metrics.load();
      asked[0]!.answer(history(3, 9));
      await loading;
      metrics.append([loss(4, 9), loss(5, 9), loss(6, 9)]);
      return { asked, metrics };
    }

    it('keeps nothing of an attempt whose restart nobody told here', async () => {
      const { asked, metrics } = await running();
      const loading = metrics.load();
      asked[1]!.answer(history(4, 7));
      await loading;
      expect(points(metrics)).toEqual(steps(1, 4).map((x) => [x, 7]));
      const emptied = metrics.load();
      asked[2]!.answer([]);
      await emptied;
      expect(points(metrics), 'it begins at its first step').toEqual([]);
    });

    it('keeps what came while the answer was on its way', async () => {
      const { asked, metrics } = await running();
      const loading = metrics.load();
      metrics.append([loss(7, 8)]);
      asked[1]!.answer(history(4, 7));
      await loading;
      expect(points(metrics)).toEqual([...steps(1, 4).map((x) => [x, 7]), [7, 8]]);
    });

    it('keeps the steps that are done again while the answer is on its way', async () => {
      const { asked, metrics } = await running();
      const loading = metrics.load();
      metrics.append([loss(3, 7), loss(4, 7)], 1);
      asked[1]!.answer(history(2, 9));
      await loading;
      expect(points(metrics)).toEqual([
        [1, 9],
        [2, 9],
        [3, 7],
        [4, 7],
      ]);
    });

    it('keeps what came meanwhile where neighbours were joined', async () => {
      const { asked, metrics } = await running();
      metrics.append(steps(7, 1000).map((x) => loss(x, 9)));
      const loading = metrics.load();
      metrics.append(steps(1001, 1200).map((x) => loss(x, 8)));
      asked[1]!.answer(history(1, 7));
      await loading;
      const line = metrics.line('loss', null).points;
      expect(line[0]?.x).toBe(1);
      expect(line[1]?.x).toBeGreaterThan(1000);
      expect(line[1]?.x).toBeLessThanOrEqual(1002);
      expect(line.at(-1)?.x).toBe(1200);
    });

    it('of a stretch at full detail: keeps what came while the answer was on its way', async () => {
      const { asked, metrics } = await running();
      const zooming = metrics.setZoom({ from: 2, to: 9 });
      metrics.append([loss(7, 8)]);
      asked[1]!.answer([{ name: 'loss', worker: null, points: [[2, 7, 7, 7]] }]);
      await zooming;
      expect(points(metrics)).toEqual([
        [2, 7],
        [7, 8],
      ]);
    });
  });

  it('goes on by time and bytes through a restart', async () => {
    const { asked, metrics } = head();
    const changing = metrics.setAxis('wall');
    asked[0]!.answer([{ name: 'loss', worker: null, points: [[0.4, 9, 9, 9]] }]);
    await changing;
    metrics.append([['loss', null, 2, 0.6, 800, 7]], 1);
    expect(xs(metrics)).toEqual([0.4, 0.6]);
  });

  it('keeps the ranks apart, and only when they are shown', async () => {
    const { asked, metrics } = head();
    metrics.append([loss(1, 5, 0), loss(1, 6, 1)]);
    expect(metrics.workers('loss')).toEqual([]);
    const reading = metrics.setWorkers(true);
    asked[0]!.answer([]);
    await reading;
    metrics.append([loss(2, 5, 10), loss(2, 6, 9)]);
    expect(metrics.workers('loss')).toEqual([9, 10]);
    expect(xs(metrics, 9)).toEqual([2]);
  });

  it('keeps the job at full width beside many ranks, and nothing of these once they are not shown', async () => {
    const { asked, metrics } = head();
    const points = Array.from({ length: 1000 }, (_, step) => [step, step, step, step]);
    const ranks = Array.from({ length: 400 }, (_, worker) => ({ name: 'loss', worker, points }));
    const reading = metrics.setWorkers(true);
    asked[0]!.answer([{ name: 'loss', worker: null, points }, ...ranks]);
    await reading;
    expect(xs(metrics)).toHaveLength(1000);
    expect(xs(metrics, 7).length).toBeLessThan(1000);
    const leaving = metrics.setWorkers(false);
    expect(metrics.workers('loss')).toEqual([]);
    expect(xs(metrics, 7)).toEqual([]);
    asked[1]!.answer([{ name: 'loss', worker: null, points }]);
    await leaving;
    expect(xs(metrics)).toHaveLength(1000);
  });

  it('keeps coarser series where there are many, from the history and from the stream', async () => {
    const { asked, metrics } = head(['loss']);
    const ranks = Array.from({ length: 400 }, (_, rank) => rank);
    const points = Array.from({ length: 500 }, (_, step) => [step, step, step, step]);
    const all = () => ranks.reduce((sum, rank) => sum + metrics.line('loss', rank).points.length, 0);
    const loading = metrics.load();
    asked[0]!.answer(ranks.map((worker) => ({ name: 'loss', worker, points })));
    await loading;
    expect(all()).toBeLessThanOrEqual(2 * pointsMax);
    for (let step = 500; step < 1200; ++step) metrics.append(ranks.map((rank) => loss(step, step, rank)));
    expect(all()).toBeLessThanOrEqual(2 * pointsMax);
    expect(all()).toBeGreaterThan(pointsMax / 2);
    const line = metrics.line('loss', 7).points;
    expect([line[0]?.min, line.at(-1)?.max]).toEqual([0, 1199]);
  });
});
