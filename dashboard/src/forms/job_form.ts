import type { Catalog, CatalogEntry, Spec } from '../api/types';
import { memoryOf, missingRole, usualMemory } from './chosen';
import { misfit } from './fit';
import { getAt, isObject } from './pointer';
import {
  field,
  fieldsOf,
  hindrance,
  inputText,
  labelOf,
  misfitAmong,
  withDefaults,
  type Field,
  type JsonSchema,
} from './schema';
import { closedBecause, valueMisfit } from './settings';

export interface FormField extends Field {
  /** Asked of everybody; the others wait behind "More". */
  basic: boolean;
  /** Must be chosen: there is no default to fall back on. */
  required: boolean;
  /** What cannot be chosen beside the rest of the spec, and why. */
  misfits: readonly Misfit[];
  /** Why nothing but the default can be set beside the rest of the spec, or null. */
  closed: string | null;
  /** Why what the spec has here does not fit the rest of it, or null. */
  fault: string | null;
}

export interface Misfit {
  choice: string;
  reason: string;
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
  params: string;
  /** Tells its parameters' labels from others of the same name. */
  prefix?: string;
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
    prefix: 'schedule_',
  },
  { name: '/compression/name', catalog: 'compressors', label: 'Compressor', params: '/compression/params' },
  {
    name: '/compression/memory',
    catalog: 'memories',
    label: 'Memory',
    params: '/compression/memory_params',
    prefix: 'memory_',
  },
  { name: '/exchange/topology', catalog: 'topologies', label: 'Topology', params: '/exchange/params' },
];

/** Asked of everybody, in this order; a JSON schema's own order need not survive the way here. */
const basic = [
  '/name',
  '/model/name',
  '/model/params/*',
  '/dataset/name',
  '/dataset/params/*',
  '/training/epochs',
  '/training/batch_size',
  '/training/optimizer/lr',
  '/compression/name',
  '/compression/params/ratio',
  '/compression/params/warmup_epochs',
  '/resources/workers',
];
const groupOrder = [
  'training',
  'compression',
  'resources',
  'exchange',
  'evaluation',
  'checkpoint',
  'fault_tolerance',
];

/**
 * The submit form for a spec as it stands: the spec's own schema decides what is asked, the catalog what can be chosen
 * and which parameters the chosen things take. A new field or a new compressor shows up here by itself.
 */
export function formGroups(schema: JsonSchema, catalog: Catalog, spec: Spec): FormGroup[] {
  const whole = withDefaults(schema, spec) as Spec;
  const general: FormGroup = { title: 'Job', fields: [] };
  const groups = [general];
  const parts = Object.entries(schema.properties ?? {});
  parts.sort(([a], [b]) => rank(groupOrder, a) - rank(groupOrder, b));
  for (const [name, property] of parts) {
    const pointer = `/${name}`;
    if (property.properties === undefined) {
      general.fields.push(formField(field(property, '', name)));
    } else {
      const fields = collect(property, pointer, catalog, spec, whole);
      // What is trained on what belongs together.
      if (name === 'model' || name === 'dataset') general.fields.push(...fields);
      else if (fields.length > 0) groups.push({ title: labelOf(name), fields });
    }
  }
  for (const group of groups) {
    group.fields = group.fields
      .map((of) => fitting(of, catalog, spec, whole))
      .filter((of) => isAsked(of, catalog, whole))
      .sort((a, b) => rankOf(a.pointer) - rankOf(b.pointer));
  }
  return groups;
}

/** Resources of processes that the mode does not have are not asked for, but told if they are there. */
function isAsked({ fault, pointer }: FormField, catalog: Catalog, whole: Spec): boolean {
  return fault !== null || missingRole(pointer, catalog, whole) === null;
}

/** A field with what does not fit the rest of the spec, which is `whole` with the defaults of its schema. */
function fitting(of: FormField, catalog: Catalog, spec: Spec, whole: Spec): FormField {
  const options: readonly unknown[] = of.kind === 'boolean' ? [true, false] : (of.schema.enum ?? []);
  const misfits = options.flatMap((option): Misfit[] => {
    const choice = inputText(option);
    const reason = misfit(of.pointer, choice, catalog, whole);
    return reason === null ? [] : [{ choice, reason }];
  });
  const fits = options.filter((option) => !misfits.some(({ choice }) => choice === inputText(option)));
  const schema = of.kind === 'choice' ? { ...of.schema, enum: fits } : of.schema;
  const closed = closedBecause(of.pointer, catalog, whole);
  const value = getAt(spec, of.pointer);
  const chosen = misfits.find(({ choice }) => choice === inputText(value ?? of.schema.default));
  let fault = of.fault ?? valueMisfit(of.pointer, catalog, whole);
  if (chosen !== undefined) fault = `${chosen.choice} does not fit: ${chosen.reason}`;
  else if (closed !== null && isChanged(value, of.schema.default)) fault = `must be left out: ${closed}`;
  return { ...of, misfits, schema, closed, fault };
}

/** Whether a value says anything: the default and zero are as good as none. */
function isChanged(value: unknown, usual: unknown): boolean {
  return value != null && value !== 0 && inputText(value) !== inputText(usual);
}

function rank(order: readonly string[], name: string): number {
  const at = order.indexOf(name);
  return at < 0 ? order.length : at;
}

/** The place among the basic fields, or one behind them. */
function rankOf(pointer: string): number {
  const own = rank(basic, pointer);
  return own < basic.length ? own : rank(basic, `${pointer.slice(0, pointer.lastIndexOf('/'))}/*`);
}

function collect(
  schema: JsonSchema,
  pointer: string,
  catalog: Catalog,
  spec: Spec,
  whole: Spec,
  prefix = '',
): FormField[] {
  const fields: FormField[] = [];
  const taken = new Set(picks.flatMap(({ params }) => params ?? []));
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (property.readOnly === true) continue;
    const at = `${pointer}/${name}`;
    const pick = picks.find((candidate) => candidate.name === at);
    if (pick !== undefined) fields.push(...pickFields(pick, property, catalog, spec, whole));
    else if (taken.has(at) && property.properties === undefined)
      continue; // comes with what was picked
    else if (property.properties !== undefined) fields.push(...collect(property, at, catalog, spec, whole, `${name}_`));
    else {
      const asked = askedAmong(field(property, pointer, name), schema, getAt(spec, pointer));
      if (asked !== null) fields.push({ ...asked, label: labelOf(prefix + name) });
    }
  }
  return distinct(fields);
}

function pickFields(pick: Pick, schema: JsonSchema, catalog: Catalog, spec: Spec, whole: Spec): FormField[] {
  const entries = catalog[pick.catalog] ?? [];
  // The memory that is taken if none is named goes with the compressor and the mode.
  const usual = pick.catalog === 'memories' ? usualMemory(catalog, whole) : schema.default;
  const chosen = entries.find(({ name }) => name === (getAt(spec, pick.name) ?? usual));
  const slash = pick.name.lastIndexOf('/');
  const choice = field(
    {
      type: 'string',
      enum: entries.map(({ name }) => name),
      ...(usual !== undefined && { default: usual }),
      description: chosen?.summary ?? schema.description ?? '',
    },
    pick.name.slice(0, slash),
    pick.name.slice(slash + 1),
  );
  const all: JsonSchema = paramsOf(pick, chosen, catalog, spec) ?? {};
  const given = getAt(spec, pick.params);
  return [
    { ...formField(choice), label: pick.label, required: pick.required ?? false },
    ...fieldsOf(all, pick.params).flatMap((param): FormField[] => {
      const asked = askedAmong(param, all, given);
      if (asked === null) return [];
      return [{ ...asked, ...(pick.prefix && { label: labelOf(pick.prefix + nameOf(param.pointer)) }) }];
    }),
  ];
}

/** A property of an object, or null if it would change nothing beside the others and is not there. */
function askedAmong(of: Field, all: JsonSchema, object: unknown): FormField | null {
  const name = nameOf(of.pointer);
  const isThere = isObject(object) && object[name] !== undefined;
  if (!isThere && hindrance(name, all, object) !== undefined) return null;
  return { ...formField(of), fault: misfitAmong(name, all, object) };
}

/** The parameters of what is chosen. A compressor may want its default memory with other defaults than its own. */
function paramsOf(pick: Pick, chosen: CatalogEntry | undefined, catalog: Catalog, spec: Spec): JsonSchema | undefined {
  const schema = chosen?.params as JsonSchema | undefined;
  if (pick.catalog !== 'memories' || schema?.properties === undefined) return schema;
  const compressor = catalog.compressors.find(({ name }) => name === getAt(spec, '/compression/name'));
  if (compressor?.default_memory !== chosen?.name) return schema;
  const wanted = Object.entries(compressor?.default_memory_params ?? {});
  const properties = { ...schema.properties };
  for (const [name, value] of wanted) properties[name] = { ...properties[name], default: value };
  return { ...schema, properties };
}

function nameOf(pointer: string): string {
  return pointer.slice(pointer.lastIndexOf('/') + 1);
}

function formField(of: Field): FormField {
  const isBasic = rankOf(of.pointer) < basic.length;
  return { ...of, basic: isBasic, required: false, misfits: [], closed: null, fault: null };
}

/** A parameter that both the catalog and the spec's schema describe is asked once, as the catalog says. */
function distinct(fields: FormField[]): FormField[] {
  const seen = new Set<string>();
  return fields.filter(({ pointer }) => !seen.has(pointer) && seen.add(pointer));
}

/**
 * Pointers that lose their meaning when the value at `pointer` has become what it is in `spec`. `usual`: what the head
 * takes where there is none.
 */
export function dependents(pointer: string, spec: Spec, catalog?: Catalog, usual?: unknown): string[] {
  if (pointer === '/resources/workers') return ['/resources/min_workers']; // null, or as many
  if (pointer === '/compression/apply_to') return strayParams(spec, catalog);
  const pick = picks.find(({ name }) => name === pointer);
  if (pick === undefined) return [];
  if (pick.name.startsWith(`${pick.params}/`)) {
    return besides(pick, getAt(spec, pick.name) ?? usual, catalog?.[pick.catalog] ?? []);
  }
  if (pointer === '/training/mode') return [pick.params, ...strayParams(spec, catalog)];
  return pointer === '/compression/name'
    ? [pick.params, '/compression/memory', '/compression/memory_params']
    : [pick.params];
}

/** Parameters of a memory that nobody has named, and that is another by now. */
function strayParams(spec: Spec, catalog?: Catalog): string[] {
  const given = getAt(spec, '/compression/memory_params');
  if (catalog === undefined || !isObject(given) || getAt(spec, '/compression/memory') != null) return [];
  const taken = (memoryOf(catalog, spec)?.params as JsonSchema | undefined)?.properties ?? {};
  return Object.keys(given)
    .filter((name) => !(name in taken))
    .map((name) => `/compression/memory_params/${name}`);
}

/** What stands beside the name of what is picked, and only others of its kind take. */
function besides(pick: Pick, chosen: unknown, entries: readonly CatalogEntry[]): string[] {
  const taken = ({ params }: CatalogEntry) => Object.keys((params as JsonSchema | undefined)?.properties ?? {});
  const own = entries.filter(({ name }) => name === chosen).flatMap(taken);
  const others = new Set(entries.flatMap(taken));
  return [...others].filter((name) => !own.includes(name)).map((name) => `${pick.params}/${name}`);
}
