import { expect, it } from 'vitest';
import { matches } from './topics';

it('gives each record to the topics that the head gives it to', () => {
  const all = ['cluster', 'jobs', 'job:7', 'logs:7', 'job:8', 'logs:8'];
  const who = (kind: string, data: unknown) => all.filter((topic) => matches([topic], kind, data));
  expect(who('node', { id: 'n1' })).toEqual(['cluster']);
  expect(who('node_removed', { id: 'n1' })).toEqual(['cluster']);
  expect(who('event', { job: null })).toEqual(['cluster']);
  expect(who('event', { job: '7' })).toEqual(['job:7']);
  expect(who('job', { id: '7' })).toEqual(['jobs', 'job:7']);
  expect(who('job_removed', { id: '7' })).toEqual(['jobs', 'job:7']);
  expect(who('job_end', { id: '7' })).toEqual(['jobs', 'job:7', 'logs:7']);
  expect(who('metrics', { job: '7' })).toEqual(['job:7']);
  expect(who('checkpoint', { job: '7' })).toEqual(['job:7']);
  expect(who('log', { job: '7' })).toEqual(['logs:7']);
  expect(who('something new', { job: '7' })).toEqual([]);
});
