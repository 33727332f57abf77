import { expect, it } from 'vitest';
import type { Job, Role } from '../api/types';
import { otherLabels } from './pushes';

it('bytes of a job with servers are not compared with a ring', () => {
  const job = (...roles: Role[]) => ({ workers: roles.map((role, rank) => ({ rank, role })) }) as unknown as Job;
  expect(otherLabels(job('worker', 'server'))['bytes_dense']?.label).toBe('uncompressed');
  expect(otherLabels(job('worker', 'state_server'))).toEqual({});
  expect(otherLabels(job('worker', 'worker'))).toEqual({});
  expect(otherLabels({} as Job)).toEqual({});
  expect(otherLabels(null)).toEqual({});
});
