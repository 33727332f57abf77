/** Which choices do not fit the rest of a spec, and why. The spec has its schema's defaults. */
import type { Catalog, Spec } from '../api/types';
import {
  compressorOf,
  exchanged,
  fitsOf,
  memoryOf,
  modeOf,
  optimizerOf,
  ownerOfMomentum,
  topologyOf,
  usuallyExchanged,
  usualParam,
} from './chosen';
import { getAt } from './pointer';

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
    case '/exchange/transport':
      return choice === 'auto' ? null : transportMisfit(catalog, spec);
    case '/training/optimizer/name':
      return optimizerMisfit(choice, catalog, spec);
    case '/training/optimizer/nesterov':
      return choice === 'true' ? nesterovMisfit(catalog, spec) : null;
    case '/training/clip/where':
      return choice === 'global' ? globalClipMisfit(catalog, spec) : null;
    case '/training/params/adapt_compression':
      return choice === 'true' ? adaptationMisfit(catalog, spec) : null;
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
  const topology = catalog.topologies.find(({ name }) => name === choice);
  const workers = getAt(spec, '/resources/workers');
  if (topology?.workers === 'power_of_two' && typeof workers === 'number' && !isPowerOfTwo(workers)) {
    return `it works for 1, 2, 4, 8, … workers, and the job has ${workers}`;
  }
  const gpus = getAt(spec, '/resources/per_worker/gpu') ?? 0;
  if (topology?.on_devices === true && typeof gpus === 'number' && gpus < 1) {
    return 'it works between GPUs, one for each worker: ask for a gpu per worker';
  }
  const compressor = compressorOf(catalog, spec);
  const gathers = topology?.gathers ?? 'all';
  if (compressor === undefined || gathers === 'all') return null;
  return fitsOf(compressor, spec)[`${gathers}_misfit`] ?? null;
}

function isPowerOfTwo(count: number): boolean {
  return (count & (count - 1)) === 0;
}

function transportMisfit(catalog: Catalog, spec: Spec): string | null {
  const topology = topologyOf(catalog, spec);
  if (topology?.on_devices === true) return `the topology ${topology.name} chooses its own`;
  return exchanged(catalog, spec) === 'nothing' ? 'one worker exchanges nothing' : null;
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
  if (plain && (memoryOf(catalog, spec)?.name ?? 'none') === 'none') return null;
  return 'it is found among uncompressed values only, which the compressor none sends';
}

/** Not every optimizer can leave the momentum to the compression. */
function optimizerMisfit(choice: string, catalog: Catalog, spec: Spec): string | null {
  const optimizer = catalog.optimizers.find(({ name }) => name === choice);
  if (optimizer?.yields_momentum !== false) return null;
  const memory = memoryOf(catalog, spec);
  let owner = ownerOfMomentum(catalog, spec);
  if (owner === null && memory?.owns_momentum === true) {
    owner = `the memory ${memory.name} applies the optimizer’s momentum before compression`;
  }
  return owner === null ? null : `it keeps moments of its own, and ${owner}`;
}

function nesterovMisfit(catalog: Catalog, spec: Spec): string | null {
  const optimizer = optimizerOf(catalog, spec);
  const owner = ownerOfMomentum(catalog, spec);
  if (owner !== null && optimizer?.yields_momentum !== false) return owner;
  const momentum = getAt(spec, '/training/optimizer/momentum') ?? usualParam(optimizer, 'momentum');
  return momentum === 0 ? 'it needs a momentum above 0' : null;
}

/** The head minds where gradients are limited only if they are. */
function globalClipMisfit(catalog: Catalog, spec: Spec): string | null {
  const limits = [getAt(spec, '/training/clip/norm'), getAt(spec, '/training/clip/value')];
  return limits.every((limit) => limit == null) ? null : noMeanOfGradients(catalog, spec);
}

/** Why what the workers agree on is no mean of gradients; null if it is one. */
function noMeanOfGradients(catalog: Catalog, spec: Spec): string | null {
  const what = exchanged(catalog, spec);
  if (what === 'nothing') return null;
  if (what === 'pushes') return 'servers apply each worker’s gradient by itself';
  if (what !== 'gradients') return 'workers make steps with their own gradients, and exchange models';
  const compressor = compressorOf(catalog, spec);
  if (compressor !== undefined && fitsOf(compressor, spec).votes === true) {
    return `with the compressor ${compressor.name} workers agree on signs, however large their gradients are`;
  }
  if (compressor?.traits?.['owns_momentum'] === true) {
    return `the compressor ${compressor.name} adds up gradients in its momentum, and sends that`;
  }
  const memory = memoryOf(catalog, spec);
  if (memory?.owns_momentum !== true) return null;
  return `the memory ${memory.name} adds up gradients in the momentum, and sends that`;
}

function adaptationMisfit(catalog: Catalog, spec: Spec): string | null {
  const topology = topologyOf(catalog, spec);
  if (topology?.on_devices === true) {
    return `it goes by the speed of the workers’ sockets, which the topology ${topology.name} does not use`;
  }
  const compressor = compressorOf(catalog, spec);
  if (compressor === undefined || compressor.traits?.['thins'] === true) return null;
  const fitting = catalog.compressors.filter(({ traits }) => traits?.['thins'] === true).map(({ name }) => name);
  return `workers can send fewer entries with ${fitting.join(', ')} only, and the compressor is ${compressor.name}`;
}
