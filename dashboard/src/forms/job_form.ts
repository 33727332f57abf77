import type { Catalog, CatalogEntry, Spec } from '../api/types';
import { getAt } from './pointer';
import { field, fieldsOf, labelOf, type Field, type JsonSchema } from './schema';

export interface FormField extends Field {
  /** Asked of everybody; the others wait behind "More". */
  basic: boolean;
  /** Must be chosen: there is no default to fall back on. */
  required: boolean;
}

export interface FormGroup {
  title: string;
  fields: FormField[];
}

/** A place of the spec that names something of the catalog, and where that thing's own parameters go. */
interface Pick {
  name: string;
  catalog:
    | 'models'
    | 'datasets'
    | 'compressors'
    | 'memories'
    | 'modes'
    | 'topologies'
    | 'optimizers'
    | 'lr_schedules';
  label: string;
  params: string | null;
  required?: boolean;
}

const picks: readonly Pick[] = [
  { name: '/model/name', catalog: 'models', label: 'Model', params: '/model/params', required: true },
  { name: '/dataset/name', catalog: 'datasets', label: 'Dataset', params: '/dataset/params', required: true },
  { name: '/training/mode', catalog: 'modes', label: 'Mode', params: '/training/params' },
  { name: '/training/optimizer/name', catalog: 'optimizers', label: 'Optimizer', params: '/training/optimizer' },
  {
    name: '/training/lr_schedule/name',
    catalog: 'lr_schedules',
    label: 'Learning rate schedule',
    params: '/training/lr_schedule',
  },
  { name: '/compression/name', catalog: 'compressors', label: 'Compressor', params: '/compression/params' },
  { name: '/compression/memory', catalog: 'memories', label: 'Memory', params: '/compression/memory_params' },
  { name: '/exchange/topology', catalog: 'topologies', label: 'Topology', params: null },
];

const basic = new Set([
  '/name',
  '/model/name',
  '/dataset/name',
  '/training/epochs',
  '/training/batch_size',
  '/training/optimizer/lr',
  '/compression/name',
  '/resources/workers',
]);
const basicParams = ['/model/params/', '/dataset/params/', '/compression/params/'];

/**
 * The submit form for a spec as it stands: the spec's own schema decides what is asked, the catalog what can be chosen
 * and which parameters the chosen things take. A new field or a new compressor shows up here by itself.
 */
export function formGroups(schema: JsonSchema, catalog: Catalog, spec: Spec): FormGroup[] {
  const general: FormGroup = { title: 'Job', fields: [] };
  const groups = [general];
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const pointer = `/${name}`;
    if (property.properties === undefined) {
      general.fields.push(formField(field(property, '', name)));
    } else {
      const fields = collect(property, pointer, catalog, spec);
      // What is trained on what belongs together.
      if (name === 'model' || name === 'dataset') general.fields.push(...fields);
      else if (fields.length > 0) groups.push({ title: labelOf(name), fields });
    }
  }
  return groups;
}

function collect(schema: JsonSchema, pointer: string, catalog: Catalog, spec: Spec, prefix = ''): FormField[] {
  const fields: FormField[] = [];
  const taken = new Set(picks.flatMap(({ params }) => params ?? []));
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const at = `${pointer}/${name}`;
    const pick = picks.find((candidate) => candidate.name === at);
    if (pick !== undefined) fields.push(...pickFields(pick, property, catalog, spec));
    else if (taken.has(at) && property.properties === undefined)
      continue; // comes with what was picked
    else if (property.properties !== undefined) fields.push(...collect(property, at, catalog, spec, `${name}_`));
    else fields.push({ ...formField(field(property, pointer, name)), label: labelOf(prefix + name) });
  }
  return distinct(fields);
}

function pickFields(pick: Pick, schema: JsonSchema, catalog: Catalog, spec: Spec): FormField[] {
  const entries = choices(pick, catalog, spec);
  const chosen = entries.find(
    ({ name }) => name === (getAt(spec, pick.name) ?? fallback(pick, schema, catalog, spec)),
  );
  const slash = pick.name.lastIndexOf('/');
  const choice = field(
    {
      type: 'string',
      enum: entries.map(({ name }) => name),
      ...(schema.default !== undefined && { default: schema.default }),
      description: chosen?.summary ?? schema.description ?? '',
    },
    pick.name.slice(0, slash),
    pick.name.slice(slash + 1),
  );
  const params = pick.params === null ? [] : fieldsOf(chosen?.params as JsonSchema | undefined, pick.params);
  return [{ ...formField(choice), label: pick.label, required: pick.required ?? false }, ...params.map(formField)];
}

/** A compressor works with some memories only. */
function choices(pick: Pick, catalog: Catalog, spec: Spec): CatalogEntry[] {
  const entries = catalog[pick.catalog] ?? [];
  if (pick.catalog !== 'memories') return entries;
  const name = getAt(spec, '/compression/name');
  const allowed = catalog.compressors.find((compressor) => compressor.name === name)?.memories;
  return allowed === undefined ? entries : entries.filter((memory) => allowed.includes(memory.name));
}

/** What the head takes if nothing is named: the memory goes with the compressor. */
function fallback(pick: Pick, schema: JsonSchema, catalog: Catalog, spec: Spec): unknown {
  if (pick.catalog !== 'memories') return schema.default;
  const name = getAt(spec, '/compression/name');
  return catalog.compressors.find((compressor) => compressor.name === name)?.default_memory;
}

function formField(of: Field): FormField {
  const shown = basic.has(of.pointer) || basicParams.some((prefix) => of.pointer.startsWith(prefix));
  return { ...of, basic: shown, required: false };
}

/** A parameter that both the catalog and the spec's schema describe is asked once, as the catalog says. */
function distinct(fields: FormField[]): FormField[] {
  const seen = new Set<string>();
  return fields.filter(({ pointer }) => !seen.has(pointer) && seen.add(pointer));
}

/** Pointers that lose their meaning when the thing named at `pointer` changes. */
export function dependents(pointer: string): string[] {
  const pick = picks.find(({ name }) => name === pointer);
  if (pick === undefined) return [];
  const params = pick.params === null || pick.name.startsWith(`${pick.params}/`) ? [] : [pick.params];
  return pointer === '/compression/name' ? [...params, '/compression/memory', '/compression/memory_params'] : params;
}
