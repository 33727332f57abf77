/** What a job has cost, and how good it has become for that. */
export interface Place {
  cost: number;
  gain: number;
}

/**
 * The Pareto front: places (by their numbers, from the cheapest on) for which no other one costs no more and gains no
 * less, and is better in one of these.
 */
export function front(places: readonly Place[]): number[] {
  const order = places.map((_, index) => index);
  order.sort((a, b) => places[a]!.cost - places[b]!.cost || places[b]!.gain - places[a]!.gain);
  let best: Place | null = null;
  return order.filter((index) => {
    const place = places[index]!;
    const twin = best !== null && place.cost === best.cost && place.gain === best.gain;
    if (best !== null && place.gain <= best.gain && !twin) return false;
    best = place;
    return true;
  });
}
