import type { Role } from './api/types';

/** A rank of a job and what its process does. */
export interface RankRole {
  rank: number;
  role: Role;
}

/** What a rank is called: "rank 3" if it trains, "server 0" as the head counts servers, "state server". */
export type RankName = (rank: number) => string;

/** `worker`: what comes before the number of a rank that trains, or of one that nothing is known of. */
export function rankNames(ranks: readonly RankRole[], worker = 'rank'): RankName {
  const names = new Map<number, string>();
  for (const [role, of] of byRole(ranks)) {
    for (const [number, rank] of of.entries()) {
      if (role === 'server') names.set(rank, `server ${number}`);
      if (role === 'state_server') names.set(rank, 'state server');
    }
  }
  return (rank) => names.get(rank) ?? `${worker} ${rank}`;
}

/** The ranks of each role, ascending. */
export function byRole(ranks: readonly RankRole[]): Map<Role, number[]> {
  const found = new Map<Role, number[]>();
  for (const { rank, role } of [...ranks].sort((a, b) => a.rank - b.rank)) {
    found.set(role, [...(found.get(role) ?? []), rank]);
  }
  return found;
}

/** A name where there is room for a few letters only: r3, s0, state. */
export function shortName(name: string): string {
  return name === 'state server' ? 'state' : name.replace(/^(\w)\w* /, '$1');
}
