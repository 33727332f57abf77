/** What a spec names, by the catalog. A spec that has its schema's defaults names something at every place. */
import type { Catalog, CatalogEntry, Spec } from '../api/types';
import { getAt, isObject } from './pointer';
import { meets, type JsonSchema } from './schema';

function named(entries: readonly CatalogEntry[], spec: Spec, pointer: string): CatalogEntry | undefined {
  const name = getAt(spec, pointer);
  return entries.find((entry) => entry.name === name);
}

export const modeOf = (catalog: Catalog, spec: Spec) => named(catalog.modes, spec, '/training/mode');
export const optimizerOf = (catalog: Catalog, spec: Spec) =>
  named(catalog.optimizers, spec, '/training/optimizer/name');
export const compressorOf = (catalog: Catalog, spec: Spec) => named(catalog.compressors, spec, '/compression/name');
export const topologyOf = (catalog: Catalog, spec: Spec) => named(catalog.topologies, spec, '/exchange/topology');
export const datasetOf = (catalog: Catalog, spec: Spec) => named(catalog.datasets, spec, '/dataset/name');

/** The memory that is named, or else the one that goes with the compressor and with what is exchanged. */
export function memoryOf(catalog: Catalog, spec: Spec): CatalogEntry | undefined {
  const name = getAt(spec, '/compression/memory') ?? usualMemory(catalog, spec);
  return catalog.memories.find((memory) => memory.name === name);
}

/** The name of the memory that the head takes if none is named. */
export function usualMemory(catalog: Catalog, spec: Spec): string | undefined {
  const compressor = compressorOf(catalog, spec);
  const usual = compressor?.default_memory ?? undefined;
  const what = exchanged(catalog, spec);
  if (what === 'models') return 'none';
  return what === 'differences' ? (compressor?.memory_for_differences ?? usual) : usual;
}

/** What the mode itself exchanges. */
export function usuallyExchanged(catalog: Catalog, spec: Spec): string {
  return modeOf(catalog, spec)?.exchanges ?? 'gradients';
}

/**
 * What workers exchange: gradients, differences between their models, these models with neighbours, pushes of gradients
 * to servers, or nothing.
 */
export function exchanged(catalog: Catalog, spec: Spec): string {
  const usual = usuallyExchanged(catalog, spec);
  return usual === 'gradients' && getAt(spec, '/compression/apply_to') === 'models' ? 'differences' : usual;
}

/** Why there are no processes that the resources at a place are of; null if there are, or it is another place. */
export function missingRole(pointer: string, catalog: Catalog, spec: Spec): string | null {
  const role = /^\/resources\/per_(\w+)$/.exec(pointer)?.[1];
  const mode = modeOf(catalog, spec);
  if (role === undefined || role === 'worker' || mode?.roles?.[role] !== undefined) return null;
  return `the mode ${mode?.name} has no ${role.replace('_', ' ')}`;
}

/** What the head takes for a parameter that is left out; undefined if there is no such parameter. */
export function usualParam(entry: CatalogEntry | undefined, name: string): unknown {
  return (entry?.params as JsonSchema | undefined)?.properties?.[name]?.default;
}

type Fits = NonNullable<CatalogEntry['variants']>[number];

/** What a compressor fits with the spec's parameters, if it is the chosen one, or else with its own defaults. */
export function fitsOf(compressor: CatalogEntry, spec: Spec): Fits {
  const { memory_misfits = {}, traits, ...usual } = compressor;
  const isChosen = compressor.name === getAt(spec, '/compression/name');
  const variant = compressor.variants?.find(({ params }) =>
    Object.entries(params).every(([name, value]) => {
      const given = isChosen ? getAt(spec, `/compression/params/${name}`) : undefined;
      const actual = given ?? usualParam(compressor, name);
      return isObject(value) ? typeof actual === 'number' && meets(actual, value) : actual === value;
    }),
  );
  return variant ?? { ...usual, memory_misfits, votes: traits?.['votes'] === true };
}

/** Those of a memory's parameters with which it has a momentum of its own, because they are not the default. */
function paramsOfOwnMomentum(memory: CatalogEntry, catalog: Catalog, spec: Spec): string[] {
  const compressor = compressorOf(catalog, spec);
  const wanted = compressor?.default_memory === memory.name ? compressor?.default_memory_params : undefined;
  return (memory.momentum_params ?? []).filter((name) => {
    const usual = usualParam(memory, name);
    return (getAt(spec, `/compression/memory_params/${name}`) ?? wanted?.[name] ?? usual) !== usual;
  });
}

/** Which part of the compression has a momentum in place of the optimizer's, as a sentence; null if none has. */
export function ownerOfMomentum(catalog: Catalog, spec: Spec): string | null {
  const memory = memoryOf(catalog, spec);
  const param = memory && paramsOfOwnMomentum(memory, catalog, spec)[0];
  const instead = 'has a momentum in place of the optimizer’s';
  if (param !== undefined) return `the memory ${memory?.name} ${instead}, unless its ${param} is left out`;
  const compressor = compressorOf(catalog, spec);
  return compressor?.traits?.['owns_momentum'] === true ? `the compressor ${compressor.name} ${instead}` : null;
}
