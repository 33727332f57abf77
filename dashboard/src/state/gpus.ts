import type { Gpu } from '../api/types';
import { bytes, number, percent } from '../format';

/** How a GPU's readings are written. What its node does not know now is said to be unknown, which is not 0. */

const unknown = 'unknown';

function known(value: number | null, write: (value: number) => string): string {
  return value === null ? unknown : write(value);
}

export function bookedText(gpu: Gpu): string {
  return gpu.booked === 0 ? 'free' : `${number(gpu.booked)} of 1`;
}

export function gpuLoadText(gpu: Gpu): string {
  return known(gpu.utilization, percent);
}

export function gpuMemoryText(gpu: Gpu): string {
  return `${known(gpu.memory_used_bytes, bytes)} of ${known(gpu.memory_total_bytes, bytes)}`;
}

export function wattsText(gpu: Gpu): string {
  return known(gpu.power_watts, (watts) => `${Math.round(watts)} W`);
}

export function celsiusText(gpu: Gpu): string {
  return known(gpu.temperature_celsius, (celsius) => `${Math.round(celsius)} °C`);
}

/** "none", or what there is: uncorrected memory errors, and the number of the last critical error. */
export function errorsText(gpu: Gpu): string {
  if (gpu.ecc_errors === null && gpu.xid === null) return unknown;
  const found = [];
  if (gpu.ecc_errors) found.push(`${gpu.ecc_errors} ECC`);
  if (gpu.xid !== null) found.push(`XID ${gpu.xid}`);
  return found.length === 0 ? 'none' : found.join(', ');
}
