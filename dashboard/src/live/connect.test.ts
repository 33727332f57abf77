import { afterEach, expect, it, vi } from 'vitest';
import { connectHub, workerRetryMilliseconds } from './connect';

afterEach(() => {
  vi.unstubAllGlobals();
});

it('gives up a worker of this tab alone whose script fails, and wants another after a pause', () => {
  const worker = { onerror: () => {}, terminate: vi.fn() };
  vi.stubGlobal('Worker', function () {
    return worker;
  });
  const failed = vi.fn<(pause: number) => void>();
  expect(connectHub(failed)).toBe(worker);
  expect(failed).not.toHaveBeenCalled();
  worker.onerror();
  expect(failed.mock.calls).toEqual([[workerRetryMilliseconds]]);
  expect(worker.terminate).toHaveBeenCalledOnce();
});
