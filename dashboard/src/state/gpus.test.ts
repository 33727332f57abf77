import { describe, expect, test } from 'vitest';
import type { Gpu } from '../api/types';
import { bookedText, celsiusText, errorsText, gpuLoadText, gpuMemoryText, wattsText } from './gpus';

const idle: Gpu = {
  index: 0,
  uuid: 'GPU-aa',
  name: 'NVIDIA H200',
  state: 'present',
  booked: 0,
  workers: [],
  memory_total_bytes: 150e9,
  memory_used_bytes: 0,
  utilization: 0,
  power_watts: 76.4,
  temperature_celsius: 31,
  ecc_errors: 0,
  xid: null,
};
const silent: Gpu = {
  ...idle,
  memory_total_bytes: null,
  memory_used_bytes: null,
  utilization: null,
  power_watts: null,
  temperature_celsius: null,
  ecc_errors: null,
};

describe('a GPU in words', () => {
  const texts = (gpu: Gpu) => [gpuLoadText, gpuMemoryText, wattsText, celsiusText, errorsText].map((text) => text(gpu));

  test('nothing used is not unknown', () => {
    expect(texts(idle)).toEqual(['0.0 %', '0 B of 150 GB', '76 W', '31 °C', 'none']);
    expect(texts(silent)).toEqual(['unknown', 'unknown of unknown', 'unknown', 'unknown', 'unknown']);
  });

  test('errors are named', () => {
    expect(errorsText({ ...idle, ecc_errors: 2 })).toBe('2 ECC');
    expect(errorsText({ ...idle, ecc_errors: 2, xid: 79 })).toBe('2 ECC, XID 79');
    expect(errorsText({ ...silent, xid: 79 })).toBe('XID 79');
  });

  test('what is booked', () => {
    expect(bookedText(idle)).toBe('free');
    expect(bookedText({ ...idle, booked: 0.5 })).toBe('0.5 of 1');
  });
});
