/** From a JSON schema (the subset that the head's own checker knows) to inputs, and from what is typed to values. */
import { isObject } from './pointer';

export interface JsonSchema {
  type?: string | string[];
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  maxItems?: number;
  /** What others of the same object must be like for this one to change anything. */
  onlyWhere?: Record<string, JsonSchema>;
  /** Another number of the same object, which this one must not be more than. */
  atMost?: string;
  /** Of an object: limits of products of its numbers, and what there would be too many of. */
  productsAtMost?: { of: string[]; maximum: number; what: string }[];
  readOnly?: boolean;
  properties?: Record<string, JsonSchema>;
  additionalProperties?: boolean | JsonSchema;
}

export type FieldKind = 'number' | 'integer' | 'text' | 'boolean' | 'choice' | 'json';

export interface Field {
  /** RFC 6901, into the job spec. */
  pointer: string;
  label: string;
  kind: FieldKind;
  schema: JsonSchema;
}

/** One field per property of an object schema, in the schema's order. */
export function fieldsOf(schema: JsonSchema | undefined, pointer: string): Field[] {
  return Object.entries(schema?.properties ?? {}).map(([name, property]) => field(property, pointer, name));
}

export function field(schema: JsonSchema, parent: string, name: string): Field {
  const types = schema.type === undefined ? [] : Array.isArray(schema.type) ? schema.type : [schema.type];
  const pointer = `${parent}/${name.replace(/~/g, '~0').replace(/\//g, '~1')}`;
  return { pointer, label: labelOf(name), kind: kindOf(schema, types), schema };
}

function kindOf(schema: JsonSchema, types: string[]): FieldKind {
  if (schema.enum !== undefined) return 'choice';
  const [type] = types.filter((name) => name !== 'null');
  if (type === 'integer' || type === 'number' || type === 'boolean') return type;
  return type === 'string' ? 'text' : 'json';
}

/** batch_size -> Batch size */
export function labelOf(name: string): string {
  const words = name.replace(/_/g, ' ').replace(/^lr\b/, 'learning rate');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What an empty input means, for its placeholder. */
export function defaultText(schema: JsonSchema): string {
  if (schema.default === undefined) return '';
  if (schema.default === null) return 'none';
  return typeof schema.default === 'string' ? schema.default : JSON.stringify(schema.default);
}

/** The permitted range in words, or "": "> 0, ≤ 1". */
export function rangeText(schema: JsonSchema): string {
  const parts: string[] = [];
  if (schema.exclusiveMinimum !== undefined) parts.push(`> ${schema.exclusiveMinimum}`);
  if (schema.minimum !== undefined) parts.push(`≥ ${schema.minimum}`);
  if (schema.exclusiveMaximum !== undefined) parts.push(`< ${schema.exclusiveMaximum}`);
  if (schema.maximum !== undefined) parts.push(`≤ ${schema.maximum}`);
  if (schema.multipleOf !== undefined) parts.push(`a multiple of ${schema.multipleOf}`);
  return parts.join(', ');
}

/** What an input shows for a value of the spec. */
export function inputText(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export type Parsed = { value: unknown } | { error: string };

/** What was typed, as a value; undefined for "leave it out, the head knows the default". */
export function parseInput(of: Field, text: string): Parsed {
  const trimmed = text.trim();
  if (trimmed === '') return { value: undefined };
  if (of.kind === 'choice') {
    const chosen = of.schema.enum?.find((option) => inputText(option) === trimmed);
    return chosen === undefined ? { error: 'is not one of the choices' } : { value: chosen };
  }
  if (of.kind === 'boolean') return { value: trimmed === 'true' };
  if (of.kind === 'text') return { value: trimmed };
  if (of.kind === 'json') {
    try {
      return { value: JSON.parse(trimmed) as unknown };
    } catch {
      return { error: 'is not JSON' };
    }
  }
  const value = Number(trimmed);
  if (!Number.isFinite(value)) return { error: 'is not a number' };
  if (of.kind === 'integer' && !Number.isInteger(value)) return { error: 'is not a whole number' };
  const range = rangeText(of.schema);
  return withinRange(value, of.schema) ? { value } : { error: `must be ${range}` };
}

/** Whether a value is as a condition says: what `onlyWhere` and the limits of a variant are made of. */
export function meets(value: unknown, condition: JsonSchema): boolean {
  if (condition.const !== undefined && value !== condition.const) return false;
  if (condition.enum !== undefined && !condition.enum.includes(value)) return false;
  if (Array.isArray(value)) return value.length <= (condition.maxItems ?? Infinity);
  return typeof value !== 'number' || withinRange(value, condition);
}

function withinRange(value: number, schema: JsonSchema): boolean {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  return (
    (minimum === undefined || value >= minimum) &&
    (maximum === undefined || value <= maximum) &&
    (exclusiveMinimum === undefined || value > exclusiveMinimum) &&
    (exclusiveMaximum === undefined || value < exclusiveMaximum) &&
    (multipleOf === undefined || value % multipleOf === 0)
  );
}

/** A value with the defaults of its schema, where it has nothing. */
export function withDefaults(schema: JsonSchema, value: unknown): unknown {
  const given = value === undefined ? schema.default : value;
  if (schema.properties === undefined || (given !== undefined && !isObject(given))) return given;
  const whole: Record<string, unknown> = isObject(given) ? { ...given } : {};
  for (const [name, property] of Object.entries(schema.properties)) {
    const inner = withDefaults(property, whole[name]);
    if (inner !== undefined) whole[name] = inner;
  }
  return whole;
}

/** A property of an object that the head completes. */
function valueOf(name: string, all: JsonSchema, object: unknown): unknown {
  return (isObject(object) ? object[name] : undefined) ?? all.properties?.[name]?.default;
}

/** Which other property is not as it must be for this one to change anything; undefined if none. */
export function hindrance(name: string, all: JsonSchema, object: unknown): string | undefined {
  const conditions = Object.entries(all.properties?.[name]?.onlyWhere ?? {});
  return conditions.find(([other, condition]) => !meets(valueOf(other, all, object), condition))?.[0];
}

/** Why a property does not fit the others of its object, each of which is right by itself; null if it does. */
export function misfitAmong(name: string, all: JsonSchema, object: unknown): string | null {
  const { atMost, default: usual } = all.properties?.[name] ?? {};
  const value = valueOf(name, all, object);
  const most = atMost === undefined ? undefined : valueOf(atMost, all, object);
  if (typeof value === 'number' && typeof most === 'number' && value > most) {
    return `must be at most ${atMost}, which is ${most}`;
  }
  const other = inputText(value) === inputText(usual) ? undefined : hindrance(name, all, object);
  if (other !== undefined) return `has no effect with this ${other}: leave it out`;
  const product = (factors: readonly string[]) =>
    factors.reduce((result, factor) => result * Number(valueOf(factor, all, object)), 1);
  const broken = all.productsAtMost?.find(({ of, maximum }) => of.at(-1) === name && product(of) > maximum);
  if (broken === undefined) return null;
  const { of, maximum, what } = broken;
  return `makes too many ${what}: ${of.join(' × ')} is ${product(of)}, and must be at most ${maximum}`;
}
