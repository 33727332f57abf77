import { expect, it } from 'vitest';
import { metricKind } from './metric_kinds';
import { lineStyle } from './palette';

it('a metric is drawn as what its name says that it is', () => {
  const drawn = (name: string) => {
    const { title, format, log, noisy } = metricKind(name);
    return [title, format(0.5), log, noisy];
  };
  expect(drawn('accuracy')).toEqual(['Test accuracy', '50.0 %', false, false]);
  expect(drawn('loss')).toEqual(['Training loss', '0.5', false, true]);
  expect(drawn('wait_seconds')).toEqual(['Wait seconds', '500 ms', false, true]);
  expect(drawn('bytes_sent')).toEqual(['Bytes sent', '1 B', true, false]);
  expect(drawn('constructor'), 'a name like any other').toEqual(['Constructor', '0.5', false, false]);
  expect(drawn('__proto__')[0]).toBe('  proto  ');
  expect(drawn('compression_ratio')).toEqual(['Compression ratio', '0.50×', false, false]);
});

it('no two of ten lines look alike', () => {
  const styles = Array.from({ length: 10 }, (_, index) => JSON.stringify(lineStyle(index, 'light')));
  expect(new Set(styles).size).toBe(10);
});
