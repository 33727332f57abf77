/** Which settings, beside the choices, do not fit the rest of a spec, and why. The spec has its schema's defaults. */
import type { Catalog, Spec } from '../api/types';
import {
  compressorOf,
  datasetOf,
  exchanged,
  memoryOf,
  missingRole,
  modeOf,
  optimizerOf,
  ownerOfMomentum,
  topologyOf,
} from './chosen';
import { getAt } from './pointer';

/** Why nothing but the default, or zero, can be set at a place, as the head would say; null if something can. */
export function closedBecause(pointer: string, catalog: Catalog, spec: Spec): string | null {
  switch (pointer) {
    case '/dataset/path': {
      const dataset = datasetOf(catalog, spec);
      return dataset?.has_files === false ? `the dataset ${dataset.name} has no files` : null;
    }
    case '/training/optimizer/lr':
      return getAt(spec, '/training/params/local_lr') == null ? null : 'the local_lr of the mode takes its place';
    case '/training/optimizer/momentum':
      return optimizerOf(catalog, spec)?.yields_momentum === false ? null : ownerOfMomentum(catalog, spec);
    case '/resources/workers':
      return exchanged(catalog, spec) === 'nothing' ? 'the mode exchanges nothing, and trains on one worker' : null;
    case '/exchange/bucket_bytes':
      return noBuckets(catalog, spec);
    default:
      return missingRole(pointer, catalog, spec) ?? noMomentumOfMemory(pointer, catalog, spec);
  }
}

function noBuckets(catalog: Catalog, spec: Spec): string | null {
  const name = modeOf(catalog, spec)?.name;
  switch (exchanged(catalog, spec)) {
    case 'nothing':
      return `the mode ${name} exchanges nothing`;
    case 'pushes':
      return `workers of the mode ${name} push each tensor by itself, not in buckets`;
    case 'models': {
      const uncompressed = compressorOf(catalog, spec)?.traits?.['lossless'] === true;
      return uncompressed ? `the mode ${name} mixes uncompressed models as a whole, not in buckets` : null;
    }
    default:
      return null;
  }
}

/** Optimizers have applied their momentum to what differences are between. */
function noMomentumOfMemory(pointer: string, catalog: Catalog, spec: Spec): string | null {
  const name = /^\/compression\/memory_params\/(\w+)$/.exec(pointer)?.[1];
  if (name === undefined || exchanged(catalog, spec) !== 'differences') return null;
  if (memoryOf(catalog, spec)?.momentum_params?.includes(name) !== true) return null;
  return 'workers exchange differences between models, and their optimizers have applied their momentum';
}

/** Why the value at a place does not fit, where another would; null if it does. */
export function valueMisfit(pointer: string, catalog: Catalog, spec: Spec): string | null {
  switch (pointer) {
    case '/dataset/path': {
      const dataset = datasetOf(catalog, spec);
      if (dataset?.needs_path !== true || getAt(spec, pointer) != null) return null;
      return `the dataset ${dataset.name} has no usual place: say where it is on the workers’ hosts`;
    }
    case '/training/params/slowdown':
      return tooLong(pointer, spec);
    case '/training/params/link_rate':
      return tooLong(pointer, spec) ?? noLinks(catalog, spec);
    case '/exchange/params/servers': {
      const [servers, workers] = [getAt(spec, pointer), getAt(spec, '/resources/workers')];
      if (typeof servers !== 'number' || typeof workers !== 'number' || servers <= workers) return null;
      return `there is at most one on each worker, and the job has ${workers}`;
    }
    default:
      return null;
  }
}

/** A list by rank has no more entries than there are workers. */
function tooLong(pointer: string, spec: Spec): string | null {
  const [list, workers] = [getAt(spec, pointer), getAt(spec, '/resources/workers')];
  if (!Array.isArray(list) || typeof workers !== 'number' || list.length <= workers) return null;
  return `has ${list.length} entries, and the job has ${workers} ${workers === 1 ? 'worker' : 'workers'}`;
}

function noLinks(catalog: Catalog, spec: Spec): string | null {
  const rates = getAt(spec, '/training/params/link_rate');
  if (!Array.isArray(rates) || rates.every((rate) => rate === 'none')) return null;
  const topology = topologyOf(catalog, spec);
  if (topology?.on_devices === true) return `limits sockets, and the topology ${topology.name} sends past them`;
  return exchanged(catalog, spec) === 'nothing' ? 'one worker exchanges nothing: leave it out' : null;
}
