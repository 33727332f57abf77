import type { Catalog, CatalogEntry, Spec } from '../api/types';
import { getAt, isObject } from './pointer';
import { meets, type JsonSchema } from './schema';

/** The entry that is chosen at a place of the spec; `usual` where the spec has nothing there. */
function chosen(entries: readonly CatalogEntry[], spec: Spec, pointer: string, usual: string) {
  const name = getAt(spec, pointer) ?? usual;
  return entries.find((entry) => entry.name === name);
}

const modeOf = (catalog: Catalog, spec: Spec) => chosen(catalog.modes, spec, '/training/mode', 'sync');
const compressorOf = (catalog: Catalog, spec: Spec) => chosen(catalog.compressors, spec, '/compression/name', 'none');

/** What the mode itself exchanges. */
function usuallyExchanged(catalog: Catalog, spec: Spec): string {
  return modeOf(catalog, spec)?.exchanges ?? 'gradients';
}

/** What workers exchange: gradients, differences between their models, these models with neighbours, or nothing. */
export function exchanged(catalog: Catalog, spec: Spec): string {
  const usual = usuallyExchanged(catalog, spec);
  return usual === 'gradients' && getAt(spec, '/compression/apply_to') === 'models' ? 'differences' : usual;
}

/** Whether the mode has processes of a role beside its workers. */
export function hasRole(catalog: Catalog, spec: Spec, role: string): boolean {
  return role === 'worker' || modeOf(catalog, spec)?.roles?.[role] !== undefined;
}

type Fits = NonNullable<CatalogEntry['variants']>[number];

/** What a compressor fits with the spec's parameters, if it is the chosen one, or else with its own defaults. */
function fitsOf(compressor: CatalogEntry, spec: Spec): Fits {
  const { memory_misfits = {}, traits, ...usual } = compressor;
  const isChosen = compressor.name === (getAt(spec, '/compression/name') ?? 'none');
  const { properties } = compressor.params as JsonSchema;
  const variant = compressor.variants?.find(({ params }) =>
    Object.entries(params).every(([name, value]) => {
      const given = isChosen ? getAt(spec, `/compression/params/${name}`) : undefined;
      const actual = given ?? properties?.[name]?.default;
      return isObject(value) ? typeof actual === 'number' && meets(actual, value) : actual === value;
    }),
  );
  return variant ?? { ...usual, memory_misfits, votes: traits?.['votes'] === true };
}

/** Why a choice at this place does not fit the rest of the spec, as the head would say; null if it does. */
export function misfit(pointer: string, choice: string, catalog: Catalog, spec: Spec): string | null {
  switch (pointer) {
    case '/compression/name':
      return compressorMisfit(choice, catalog, spec);
    case '/compression/memory':
      return memoryMisfit(choice, catalog, spec);
    case '/compression/apply_to':
      return choice === 'gradients' ? null : modelsMisfit(usuallyExchanged(catalog, spec));
    case '/compression/aggregation':
      return choice === 'mean' ? null : aggregationMisfit(choice, catalog, spec);
    case '/exchange/topology':
      return topologyMisfit(choice, catalog, spec);
    default:
      return null;
  }
}

function compressorMisfit(choice: string, catalog: Catalog, spec: Spec): string | null {
  const compressor = catalog.compressors.find(({ name }) => name === choice);
  if (compressor === undefined) return null;
  const fits = fitsOf(compressor, spec);
  switch (exchanged(catalog, spec)) {
    case 'differences':
      return fits.differences_misfit ?? null;
    case 'models':
      return fits.neighbours_misfit ?? null;
    case 'pushes':
      return fits.pushes_misfit ?? null;
    case 'nothing':
      return choice === 'none' ? null : 'one worker exchanges nothing that could be compressed';
    default:
      return null;
  }
}

function memoryMisfit(choice: string, catalog: Catalog, spec: Spec): string | null {
  const what = exchanged(catalog, spec);
  if (what === 'models') {
    return choice === 'none' ? null : 'what was not sent is still in the difference to what the neighbours know';
  }
  const memory = catalog.memories.find(({ name }) => name === choice);
  const byMode = what === 'differences' ? memory?.differences_misfit : what === 'pushes' ? memory?.pushes_misfit : null;
  if (byMode != null) return byMode;
  const compressor = compressorOf(catalog, spec);
  if (compressor === undefined) return null;
  return fitsOf(compressor, spec).memory_misfits[choice] ?? null;
}

const alone = 'one worker uses its own values as they are';

function modelsMisfit(usual: string): string | null {
  if (usual === 'nothing') return alone;
  if (usual === 'pushes') return 'the model is the servers’';
  return usual === 'models' ? 'neighbours mix parameters, and statistics stay each worker’s own' : null;
}

function topologyMisfit(choice: string, catalog: Catalog, spec: Spec): string | null {
  const mode = modeOf(catalog, spec);
  if (mode?.topologies !== undefined && !mode.topologies.includes(choice)) {
    return `the mode ${mode.name} works over ${mode.topologies.join(', ')} only`;
  }
  const compressor = compressorOf(catalog, spec);
  const gathers = catalog.topologies.find(({ name }) => name === choice)?.gathers ?? 'all';
  if (compressor === undefined || gathers === 'all') return null;
  return fitsOf(compressor, spec)[`${gathers}_misfit`] ?? null;
}

function aggregationMisfit(choice: string, catalog: Catalog, spec: Spec): string | null {
  const what = exchanged(catalog, spec);
  if (what === 'models') return 'neighbours mix models with the weights of their graph';
  if (what === 'pushes') return 'each gradient is a share of a step';
  if (what === 'nothing') return alone;
  const compressor = compressorOf(catalog, spec);
  if (compressor === undefined) return null;
  if (fitsOf(compressor, spec).votes === true) return 'the workers agree on signs, each with one vote';
  if (choice !== 'min' && choice !== 'max') return null;
  const { lossless, passes } = compressor.traits ?? {};
  const plain = lossless === true && Array.isArray(passes) && passes.join() === 'sum';
  const memory = getAt(spec, '/compression/memory') ?? compressor.default_memory ?? 'none';
  if (plain && memory === 'none') return null;
  return 'it is found among uncompressed values only, which the compressor none sends';
}
