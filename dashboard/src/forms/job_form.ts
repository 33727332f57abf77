import type { Catalog, CatalogEntry, Spec } from '../api/types';
import { exchanged, hasRole, misfit } from './fit';
import { getAt } from './pointer';
import { field, fieldsOf, inputText, labelOf, meets, type Field, type JsonSchema } from './schema';

export interface FormField extends Field {
  /** Asked of everybody; the others wait behind "More". */
  basic: boolean;
  /** Must be chosen: there is no default to fall back on. */
  required: boolean;
  /** What cannot be chosen beside the rest of the spec, and why. */
  misfits: readonly Misfit[];
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
  const general: FormGroup = { title: 'Job', fields: [] };
  const groups = [general];
  const parts = Object.entries(schema.properties ?? {});
  parts.sort(([a], [b]) => rank(groupOrder, a) - rank(groupOrder, b));
  for (const [name, property] of parts) {
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
  for (const group of groups) {
    group.fields = group.fields
      .filter(({ pointer }) => isAsked(pointer, catalog, spec))
      .map((of) => fitting(of, catalog, spec))
      .sort((a, b) => rankOf(a.pointer) - rankOf(b.pointer));
  }
  return groups;
}

/** Resources of processes that the mode does not have are not asked for. */
function isAsked(pointer: string, catalog: Catalog, spec: Spec): boolean {
  const role = /^\/resources\/per_(\w+)$/.exec(pointer)?.[1];
  return role === undefined || hasRole(catalog, spec, role);
}

/** A choice without what does not fit the rest of the spec. */
function fitting(of: FormField, catalog: Catalog, spec: Spec): FormField {
  const options = of.kind === 'choice' ? (of.schema.enum ?? []) : [];
  const misfits = options.flatMap((option): Misfit[] => {
    const choice = inputText(option);
    const reason = misfit(of.pointer, choice, catalog, spec);
    return reason === null ? [] : [{ choice, reason }];
  });
  if (misfits.length === 0) return of;
  const fits = options.filter((option) => !misfits.some(({ choice }) => choice === inputText(option)));
  return { ...of, misfits, schema: { ...of.schema, enum: fits } };
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

function collect(schema: JsonSchema, pointer: string, catalog: Catalog, spec: Spec, prefix = ''): FormField[] {
  const fields: FormField[] = [];
  const taken = new Set(picks.flatMap(({ params }) => params ?? []));
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (property.readOnly === true) continue;
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
  const entries = catalog[pick.catalog] ?? [];
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
  const all = paramsOf(pick, chosen, catalog, spec);
  const params = fieldsOf(all, pick.params).filter((param) => hasEffect(param, all, pick.params, spec));
  return [
    { ...formField(choice), label: pick.label, required: pick.required ?? false },
    ...params.map((param) => {
      return { ...formField(param), ...(pick.prefix && { label: labelOf(pick.prefix + nameOf(param.pointer)) }) };
    }),
  ];
}

/** Whether a parameter changes something beside the others; one that is there is shown in any case. */
function hasEffect({ pointer, schema }: Field, all: JsonSchema | undefined, at: string, spec: Spec): boolean {
  if (getAt(spec, pointer) !== undefined) return true;
  return Object.entries(schema.onlyWhere ?? {}).every(([name, condition]) =>
    meets(getAt(spec, `${at}/${name}`) ?? all?.properties?.[name]?.default, condition),
  );
}

/** What the head takes if nothing is named: the memory goes with the compressor and the mode. */
function fallback(pick: Pick, schema: JsonSchema, catalog: Catalog, spec: Spec): unknown {
  if (pick.catalog !== 'memories') return schema.default;
  const name = getAt(spec, '/compression/name');
  const compressor = catalog.compressors.find((candidate) => candidate.name === name);
  const usual = compressor?.default_memory;
  const what = exchanged(catalog, spec);
  if (what === 'models') return 'none';
  return what === 'differences' ? (compressor?.memory_for_differences ?? usual) : usual;
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
  return { ...of, basic: rankOf(of.pointer) < basic.length, required: false, misfits: [] };
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
  const pick = picks.find(({ name }) => name === pointer);
  if (pick === undefined) return [];
  if (pick.name.startsWith(`${pick.params}/`)) {
    return besides(pick, getAt(spec, pick.name) ?? usual, catalog?.[pick.catalog] ?? []);
  }
  return pointer === '/compression/name'
    ? [pick.params, '/compression/memory', '/compression/memory_params']
    : [pick.params];
}

/** What stands beside the name of what is picked, and only others of its kind take. */
function besides(pick: Pick, chosen: unknown, entries: readonly CatalogEntry[]): string[] {
  const taken = ({ params }: CatalogEntry) => Object.keys((params as JsonSchema | undefined)?.properties ?? {});
  const own = entries.filter(({ name }) => name === chosen).flatMap(taken);
  const others = new Set(entries.flatMap(taken));
  return [...others].filter((name) => !own.includes(name)).map((name) => `${pick.params}/${name}`);
}
