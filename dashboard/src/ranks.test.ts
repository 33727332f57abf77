import { describe, expect, it } from 'vitest';
import { byRole, rankNames, shortName, type RankRole } from './ranks';

const job: RankRole[] = [
  { rank: 3, role: 'server' },
  { rank: 0, role: 'worker' },
  { rank: 1, role: 'worker' },
  { rank: 4, role: 'state_server' },
  { rank: 2, role: 'server' },
];

describe('rankNames', () => {
  it('names servers as the head does: by their number among the servers', () => {
    expect([0, 1, 2, 3, 4].map(rankNames(job))).toEqual(['rank 0', 'rank 1', 'server 0', 'server 1', 'state server']);
    expect([1, 3].map(rankNames(job, 'worker'))).toEqual(['worker 1', 'server 1']);
  });

  it('takes ranks that nothing is known of for workers', () => {
    expect(rankNames([])(7)).toBe('rank 7');
  });

  it('has short names for narrow places', () => {
    expect([0, 3, 4].map(rankNames(job)).map(shortName)).toEqual(['r0', 's1', 'state']);
  });
});

describe('byRole', () => {
  it('has the ranks of each role, ascending', () => {
    expect([...byRole(job)]).toEqual([
      ['worker', [0, 1]],
      ['server', [2, 3]],
      ['state_server', [4]],
    ]);
  });
});
