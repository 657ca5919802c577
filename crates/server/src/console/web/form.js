// A form made of a JSON Schema. What it does not know is written as JSON.

import { html, Select, Text } from "./ui.js";
import { count, own, short } from "./text.js";

const DEEPEST = 3;
const MOST_FIELDS = 150;
const MOST_CHOICES = 500;

// The schema behind local references, with the parts of `allOf` put together.
function resolved(schema, root, depth = 0) {
  if (schema === null || typeof schema !== "object" || depth > 8) return {};
  if (typeof schema.$ref === "string") {
    const { $ref, ...rest } = schema;
    return { ...resolved(at(root, $ref), root, depth + 1), ...rest };
  }
  if (Array.isArray(schema.allOf) && schema.allOf.length === 1) return { ...resolved(schema.allOf[0], root, depth + 1), ...schema, allOf: undefined };
  return withoutNull(schema, root, depth);
}

// `null` as one of two kinds means that the field may stay empty.
function withoutNull(schema, root, depth) {
  if (Array.isArray(schema.type)) {
    const kinds = schema.type.filter((kind) => kind !== "null");
    return kinds.length === 1 ? { ...schema, type: kinds[0] } : schema;
  }
  const either = schema.anyOf ?? schema.oneOf;
  if (!Array.isArray(either)) return schema;
  const kinds = either.filter((one) => one?.type !== "null");
  return kinds.length === 1 ? { ...resolved(kinds[0], root, depth + 1), ...schema, anyOf: undefined, oneOf: undefined } : schema;
}

function at(root, pointer) {
  if (!pointer.startsWith("#/")) return {};
  let place = root;
  for (const part of pointer.slice(2).split("/")) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (place === null || typeof place !== "object" || !Object.hasOwn(place, name)) return {};
    place = place[name];
  }
  return place;
}

function kindOf(schema, depth) {
  if (Array.isArray(schema.enum) && schema.enum.length <= MOST_CHOICES) return "enum";
  if (["string", "integer", "number", "boolean"].includes(schema.type)) return schema.type;
  if (schema.type === "array" && ["string", "integer", "number"].includes(schema.items?.type) && !schema.items.enum) return "lines";
  if (schema.type === "object" && schema.properties && depth < DEEPEST) return "object";
  return "json";
}

const fieldsOf = (schema) => Object.entries(schema.properties ?? {}).slice(0, MOST_FIELDS);

// Fields for each property. `values` has what was typed, by name.
export function Form({ schema, values, onChange }) {
  const root = schema ?? {};
  const whole = resolved(root, root);
  const names = Object.keys(whole.properties ?? {});
  if (!names.length) return html`<p
    class="dim">The tool takes no arguments${whole.additionalProperties === false ? "" : " that its schema names; write JSON to send some"}.</p>`;
  return html`<${Fields} schema=${whole} root=${root} values=${values} onChange=${onChange} path="arg" depth=${0} />
    ${names.length > MOST_FIELDS && html`<p class="note">
      ${count(names.length - MOST_FIELDS)} more arguments: write JSON to send them.</p>`}`;
}

const Fields = ({ schema, root, values, onChange, path, depth }) => fieldsOf(schema).map(([name, raw]) => {
  const property = resolved(raw, root);
  const set = (value) => onChange({ ...values, [name]: value });
  return html`<${Property} key=${name} name=${name} schema=${property} root=${root} value=${own(values, name)}
    set=${set}
    id=${`${path}-${name}`.replace(/\s/g, "_")}
    required=${Array.isArray(schema.required) && schema.required.includes(name)} depth=${depth} />`;
});

function Property({ name, schema, root, value, set, id, required, depth }) {
  const kind = kindOf(schema, depth);
  const title = html`<${Text} text=${name} length=${60} /> <span class="dim">
    ${short(kindWords(schema, kind), 60)}${required ? ", required" : ""}</span>`;
  const note = schema.description && html`<p class="note" id=${`${id}-note`}><bdi>${short(schema.description, 400)}
    </bdi></p>`;
  if (kind === "object") {
    return html`<fieldset><legend>${title}</legend>${note}<${Fields} schema=${schema} root=${root} values=${value ?? {}}
      onChange=${set} path=${id} depth=${depth + 1} /></fieldset>`;
  }
  return html`<div class="field"><label for=${id}>${title}</label><${Input} kind=${kind} schema=${schema} id=${id}
    value=${value} set=${set} required=${required} />${note}</div>`;
}

function kindWords(schema, kind) {
  if (kind === "lines") return `${schema.items.type}s, one a line`;
  const format = typeof schema.format === "string" ? ` (${schema.format})` : "";
  return `${kind === "enum" ? "choice" : kind === "json" ? "JSON" : kind}${format}`;
}

function Input({ kind, schema, id, value, set, required }) {
  const common = {
    id,
    "aria-required": required ? "true" : undefined,
    "aria-describedby": schema.description ? `${id}-note` : undefined,
    placeholder: schema.default !== undefined ? short(JSON.stringify(schema.default), 60) : undefined,
    onInput: (event) => set(event.target.value),
  };
  if (kind === "enum" || kind === "boolean") {
    const choices = kind === "boolean" ? [true, false] : schema.enum;
    const options = [["", "not set"], ...choices.map((one, place) => [String(place), typeof one === "string" ? one : JSON.stringify(one)])];
    const place = choices.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));
    return html`<${Select} id=${id} value=${place < 0 ? "" : String(place)} options=${options}
      onChange=${(text) => set(text === "" ? undefined : choices[Number(text)])} />`;
  }
  if (kind === "lines" || kind === "json") return html`<textarea ...${common} class="mono" rows="3" spellcheck=${false}
    value=${typed(value, kind)}></textarea>`;
  if (kind === "string" && (schema.maxLength > 200 || /body|text|content|query|message/i.test(id))) {
    return html`<textarea ...${common} rows="2" value=${typed(value, kind)}></textarea>`;
  }
  return html`<input ...${common} autocomplete="off"
    inputmode=${kind === "integer" ? "numeric" : kind === "number" ? "decimal" : undefined} value=${typed(value, kind)} />`;
}

function typed(value, kind) {
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  if (kind === "lines" && Array.isArray(value)) return value.join("\n");
  return JSON.stringify(value);
}

// The arguments that the typed `values` mean: `{value, errors}`. Empty fields are left out.
export function collect(schema, values) {
  const errors = [];
  const root = schema ?? {};
  const value = collectObject(resolved(root, root), root, values, "", errors, 0);
  return { value, errors };
}

function collectObject(schema, root, values, path, errors, depth) {
  // Without a prototype, `__proto__` is a name as any other.
  const made = Object.create(null);
  const known = new Set();
  for (const [name, raw] of fieldsOf(schema)) {
    known.add(name);
    const property = resolved(raw, root);
    const place = path ? `${path}.${name}` : name;
    const one = collectOne(property, root, own(values, name), place, errors, depth);
    if (one !== undefined) made[name] = one;
    else if (Array.isArray(schema.required) && schema.required.includes(name)) errors.push(`${place}: is required`);
  }
  // What was written as JSON beyond the schema stays.
  for (const [name, value] of Object.entries(values ?? {})) if (!known.has(name)) made[name] = value;
  return made;
}

function collectOne(schema, root, value, place, errors, depth) {
  const kind = kindOf(schema, depth);
  if (value === undefined || value === "") return undefined;
  if (kind === "object") {
    const inner = [];
    const made = collectObject(schema, root, value, place, inner, depth + 1);
    if (!Object.keys(made).length) return undefined;
    errors.push(...inner);
    return made;
  }
  if (typeof value !== "string" || kind === "string" || kind === "enum") return value;
  if (kind === "integer" || kind === "number") return number(value, kind, place, errors);
  if (kind === "lines") {
    const lines = value.split("\n").map((line) => line.trim()).filter(Boolean);
    return schema.items.type === "string" ? lines : lines.map((line) => number(line, schema.items.type, place, errors));
  }
  try {
    return JSON.parse(value);
  } catch (error) {
    errors.push(`${place}: not JSON (${error.message})`);
    return undefined;
  }
}

function number(text, kind, place, errors) {
  const made = Number(text);
  if (!Number.isFinite(made) || (kind === "integer" && !Number.isInteger(made))) errors.push(`${place}: “${short(text, 30)}” is not ${kind === "integer" ? "an integer" : "a number"}`);
  return made;
}
