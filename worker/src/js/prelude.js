// The script API, one source for V8 and QuickJS. `install` runs once in a fresh realm, before any script code:
// it captures intrinsics, builds the API, freezes the realm and returns the functions that the host calls.
// Scripts never see `host` nor the returned functions.
export default (host) => {
  const {
    Array, ArrayBuffer, BigInt, Boolean, Date, Error, JSON, Map, Number, Object, Promise, Proxy, RangeError, Reflect, RegExp,
    Set, String, Symbol, TypeError, WeakMap,
  } = globalThis;
  const { apply, getPrototypeOf, ownKeys } = Reflect;
  const { create, defineProperty, freeze, getOwnPropertyDescriptor, getOwnPropertyNames, isFrozen, keys: keysOf } = Object;
  const { isArray } = Array;
  const { isFinite, isInteger, isSafeInteger } = Number;
  const uncurry = (method) => (self, ...args) => apply(method, self, args);
  const then = uncurry(Promise.prototype.then);
  const mapGet = uncurry(Map.prototype.get);
  const mapSet = uncurry(Map.prototype.set);
  const mapDelete = uncurry(Map.prototype.delete);
  const mapSize = uncurry(getOwnPropertyDescriptor(Map.prototype, "size").get);
  const mapEntries = uncurry(Map.prototype.entries);
  const setValues = uncurry(Set.prototype.values);
  const setSize = uncurry(getOwnPropertyDescriptor(Set.prototype, "size").get);
  const weakGet = uncurry(WeakMap.prototype.get);
  const weakSet = uncurry(WeakMap.prototype.set);
  const arrayFrom = (it) => { const list = []; for (const item of it) append(list, item); return list; };
  const append = (list, item) =>
    defineProperty(list, list.length, { value: item, writable: true, enumerable: true, configurable: true });
  const join = uncurry(Array.prototype.join);
  const includes = uncurry(Array.prototype.includes);
  const toWellFormed = uncurry(String.prototype.toWellFormed);
  const split = uncurry(String.prototype.split);
  const slice = uncurry(String.prototype.slice);
  const bigIntText = uncurry(BigInt.prototype.toString);
  const { isRawJSON, parse, rawJSON, stringify } = JSON;
  const isPromise = (value) => value instanceof Promise;
  const globals = globalThis;

  // ---- numbers ----

  // A number of a JSON text that a double would round, by its digits.
  class ExactNumber {
    #digits;

    constructor(digits) {
      this.#digits = String(digits);
      freeze(this);
    }

    toString() {
      return this.#digits;
    }

    toJSON() {
      return rawJSON(this.#digits);
    }

    [Symbol.toPrimitive](hint) {
      if (hint === "string") return this.#digits;
      const value = rounded(this);
      if (!isRoundingTold) host.output(true, `${slice(this.#digits, 0, 40)} was rounded to ${value}: ${UNTOUCHED}`);
      isRoundingTold = true;
      return value;
    }
  }
  let isRoundingTold = false;
  const UNTOUCHED = "a number keeps all its digits while it is passed on untouched, or as text by String(x)";

  const rounded = (exact) => {
    const value = Number(exact.toString());
    if (isFinite(value)) return value;
    throw new RangeError(`${slice(exact.toString(), 0, 40)} is beyond the numbers of JavaScript: ${UNTOUCHED}`);
  };

  for (const name of ["toExponential", "toFixed", "toLocaleString", "toPrecision"]) {
    const native = uncurry(Number.prototype[name]);
    const method = { [name](...args) { return native(rounded(this), ...args); } };
    defineProperty(ExactNumber.prototype, name, { value: method[name] });
  }

  // Parsing more digits takes engines more than linear time.
  const MAX_DIGITS = 4300;

  // A reviver, by the text of each number: what a double holds is one.
  const keep = (_key, value, { source }) => {
    if (typeof value !== "number" || source === undefined || /^[-.\d]{1,15}$/.test(source)) return value;
    const isWhole = /^-?\d+$/.test(source);
    if (isWhole ? isSafeInteger(value) : host.native("rounds", source) === "=") return value;
    return isWhole && source.length <= MAX_DIGITS ? BigInt(source) : new ExactNumber(source);
  };

  // Longer texts are not copied to be looked at.
  const MAX_COPIED = 8 << 20;
  const rounds = (text) => text.length > MAX_COPIED || host.native("rounds", toWellFormed(text)) !== "=";
  const read = (text, isRounded = rounds(text)) => (isRounded ? parse(text, keep) : parse(text));

  const fixJson = () => {
    const json = {
      parse(text, reviver) {
        const given = `${text}`;
        if (typeof reviver !== "function") return read(given);
        if (!rounds(given)) return parse(given, reviver);
        return parse(given, function (key, value, context) {
          return apply(reviver, this, [key, keep(key, value, context), context]);
        });
      },
      stringify(value, replacer, space) {
        if (typeof replacer !== "function") return stringify(value, replacer, space);
        return stringify(value, function (key, item) {
          const isBig = isRawJSON(item) && typeof this[key] === "bigint";
          const answer = apply(replacer, this, [key, isBig ? this[key] : item]);
          return typeof answer === "bigint" ? rawJSON(bigIntText(answer)) : answer;
        }, space);
      },
    };
    for (const key of ownKeys(json)) defineProperty(JSON, key, { value: json[key] });
    define(BigInt.prototype, "toJSON", { toJSON() { return rawJSON(bigIntText(this)); } }.toJSON);
  };

  // ---- values out of the realm ----

  class NoJson extends TypeError {}

  const name = (key) => (key === "" ? "the value" : `\`${key}\``);

  const tagOf = uncurry(Object.prototype.toString);
  const isView = ArrayBuffer.isView;

  // An object that JSON would lose or mangle in silence: what it is and what to write instead; `undefined` for any other.
  const lost = (value) => {
    const parent = getPrototypeOf(value);
    if (parent === Object.prototype || parent === null || isArray(value)) return undefined;
    const tag = slice(tagOf(value), 8, -1);
    if (isPromise(value)) return "a promise: a call is missing its `await`";
    if (value instanceof Map) return "a Map: use Object.fromEntries(map)";
    if (value instanceof Set) return "a Set: use [...set]";
    if (value instanceof RegExp) return "a RegExp: use its `.source`, or String(it)";
    if (value instanceof ArrayBuffer) return "an ArrayBuffer: use [...new Uint8Array(buffer)]";
    if (isView(value)) return tag === "DataView" ? "a DataView: use [...new Uint8Array(view.buffer)]" : `a ${tag}: use [...bytes]`;
    if (ownKeys(value).length > 0 && keysOf(value).length > 0 || value instanceof Error) return undefined;
    if (value instanceof Number || value instanceof String || value instanceof Boolean) return undefined;
    if (typeof value[Symbol.asyncIterator] === "function") {
      return `an async iterator (${tag}): collect it: \`for await (const item of it) list.push(item)\``;
    }
    if (typeof value[Symbol.iterator] === "function") return `an iterator (${tag}): use [...it]`;
    const kind = tag === "Object" ? safe(() => String(value.constructor.name), tag) : tag;
    return `an object of ${kind} without fields of its own: use a plain object, or give its class a \`toJSON()\``;
  };

  // JSON.stringify drops or mangles these silently; here they are errors.
  const strict = function (key, value) {
    switch (typeof value) {
      case "number":
        if (!isFinite(value)) throw new NoJson(`${name(key)} is ${value}, which has no JSON form`);
        return value;
      case "symbol":
        throw new NoJson(`${name(key)} is a symbol, which has no JSON form: use String(symbol)`);
      case "function":
        throw new NoJson(`${name(key)} is a function: was it meant to be called?`);
      case "object": {
        // The date was asked for its JSON before.
        if (value === null && this[key] instanceof Date) throw new NoJson(`${name(key)} is an invalid Date: use null`);
        if (value === null || isArray(value)) return value;
        const what = lost(value);
        if (what !== undefined) throw new NoJson(`${name(key)} is ${what}`);
        if (value instanceof Error && !(value instanceof ForgeError)) {
          const reasons = reasonsOf(value);
          return { name: String(value.name), message: String(value.message), ...(reasons && { errors: reasons }) };
        }
        return value;
      }
      default:
        return value;
    }
  };

  const toJson = (value, what) => {
    try {
      const text = stringify(value, strict);
      return text ?? "null";
    } catch (error) {
      if (error instanceof NoJson) throw new NoJson(`${what}: ${error.message}`);
      const message = safe(() => String(error.message), "");
      if (/circular|cyclic/i.test(message)) throw new NoJson(`${what}: it contains itself, which has no JSON form`);
      throw error;
    }
  };

  const safe = (get, otherwise) => {
    try {
      return get();
    } catch {
      return otherwise;
    }
  };

  // ---- errors ----

  class ForgeError extends Error {
    constructor(code, message, { retryable = false, suggested_fix, data } = {}) {
      super(message);
      define(this, "code", code);
      define(this, "retryable", retryable);
      define(this, "suggested_fix", suggested_fix);
      define(this, "data", data);
    }

    toJSON() {
      const { code, message, retryable, suggested_fix, data } = this;
      return { code, message, retryable, suggested_fix, data };
    }
  }
  defineProperty(ForgeError.prototype, "name", { value: "ForgeError" });

  const MAX_REASONS = 5;
  const MAX_REASON = 200;

  // The reasons of an AggregateError, as texts.
  const reasonsOf = (error) => {
    const { errors } = error;
    if (!isArray(errors) || errors.length === 0) return undefined;
    const texts = [];
    for (let i = 0; i < errors.length && i < MAX_REASONS; i++) {
      const text = errors[i] instanceof Error ? `${errors[i].name}: ${errors[i].message}` : inspect(errors[i]);
      append(texts, slice(toWellFormed(text), 0, MAX_REASON));
    }
    if (errors.length > MAX_REASONS) append(texts, `… and ${errors.length - MAX_REASONS} more`);
    return texts;
  };

  const reasonText = (error) => {
    const reasons = reasonsOf(error);
    return reasons === undefined ? "" : ` (${join(reasons, "; ")})`;
  };

  const define = (target, key, value) => defineProperty(target, key, { value, writable: true, configurable: true });

  // Errors that engines and natives throw; a script that stops itself throws others.
  const NATIVE = [
    "TypeError", "ReferenceError", "RangeError", "SyntaxError", "URIError", "EvalError", "InternalError", "AggregateError",
  ];

  // The call behind an error, out of the script's reach.
  const origins = new WeakMap();

  const fail = (site, { code, message, retryable, suggested_fix, data }, call) => {
    // Created at the call site, so that its stack points there.
    define(site, "message", message);
    const frames = safe(() => String(site.stack), "");
    const from = framesOf(frames);
    define(site, "stack", `ForgeError: ${message}${from ? `\n${from}` : ""}`);
    site.code = code;
    site.retryable = retryable;
    site.suggested_fix = suggested_fix;
    site.data = data;
    weakSet(origins, site, { call, error: { code, message, retryable, suggested_fix, data } });
    return site;
  };

  // The frames of a stack, without the message and without ours.
  const framesOf = (stack) => {
    const lines = [];
    for (const line of split(stack, "\n")) {
      if (/^\s*at /.test(line) && !/forge:prelude|\(native\)/.test(line)) append(lines, line);
    }
    return join(lines, "\n");
  };

  const describe = (error) => {
    const isObject = (typeof error === "object" && error !== null) || typeof error === "function";
    const origin = isObject ? weakGet(origins, error) : undefined;
    if (origin !== undefined) {
      const stack = safe(() => framesOf(String(error.stack)), "");
      const said = { kind: "call", name: "ForgeError", message: origin.error.message, stack, ...origin };
      return stringify({ ...said, answers: arrayFrom(mapEntries(answers)) });
    }
    if (isObject && safe(() => error instanceof Error, false)) {
      const cause = safe(() => error.cause, undefined);
      const because = safe(() => (cause instanceof Error ? ` (caused by: ${cause.message})` : ""), "");
      const of = safe(() => reasonText(error), "");
      const name = safe(() => String(error.name), "Error");
      return stringify({
        kind: error instanceof NoJson ? "result" : includes(NATIVE, name) ? "script" : "stopped",
        name: error instanceof NoJson ? "TypeError" : name,
        message: safe(() => String(error.message), "") + of + because,
        stack: safe(() => framesOf(String(error.stack)), ""),
        answers: arrayFrom(mapEntries(answers)),
      });
    }
    const message = `it threw a value that is not an Error: ${inspect(error)}`;
    return stringify({ kind: "stopped", name: "", message, stack: "" });
  };

  // ---- calls ----

  const pending = new Map();
  // Calls of tools, resources and prompts that the run may still make; `expose` has their limit.
  let callsLeft = 0;

  // Functions that made calls, as scripts write them, and the shape of the last answer of each: for errors.
  const MAX_ANSWERS = 50;
  const answers = new Map();

  const brief = (value) => {
    if (typeof value === "string") {
      // JSON, by its ends.
      if (/^\s*\{\s*["}]/.test(value) && /\}\s*$/.test(slice(value, -20))) return '"{…}"';
      if (/^\s*\[\s*["[{\]\d-]/.test(value) && /\]\s*$/.test(slice(value, -20))) return '"[…]"';
      return '"…"';
    }
    if (isArray(value)) return `[…${value.length}]`;
    if (typeof value === "object" && value !== null && !(value instanceof ExactNumber)) return "{…}";
    return slice(String(value), 0, 40);
  };

  const MAX_KEYS = 8;
  const shapeOf = (value) => {
    if (typeof value === "string") {
      return `text of ${value.length} characters${/^(\{|\[[{([]?)'/.test(value) ? ", which `forge.literal(text)` reads" : ""}`;
    }
    if (typeof value !== "object" || value === null) return String(value);
    if (isArray(value)) return value.length === 0 ? "[]" : `[…${value.length}], the first ${fields(value[0])}`;
    return fields(value);
  };

  const fields = (value) => {
    if (typeof value !== "object" || value === null || isArray(value) || value instanceof ExactNumber) return brief(value);
    const shown = [];
    for (const key of ownKeys(value)) {
      if (shown.length === MAX_KEYS) {
        append(shown, "…");
        break;
      }
      append(shown, `${slice(key, 0, 40)}: ${brief(value[key])}`);
    }
    return `{${join(shown, ", ")}}`;
  };

  const request = (op, form, counted = 0) => {
    const site = new ForgeError("INTERNAL", "");
    const sent = host.send(op);
    // One that is too large to send is not made.
    if (typeof sent !== "string") callsLeft -= counted;
    return new Promise((resolve, reject) => {
      if (typeof sent !== "string") return mapSet(pending, sent, { resolve, reject, site, form });
      // A limit of the run ends it here, whatever catches errors around the call. Any other call that cannot be sent
      // fails like a refused one: by its promise.
      if (!isLimit(site, sent)) reject(site);
    });
  };

  // Makes an error of a request that was not sent, and ends the run if it met a limit.
  const isLimit = (site, unsent) => {
    const error = parse(unsent);
    fail(site, error, undefined);
    if (error.code !== "LIMIT_EXCEEDED") return false;
    host.settle(false, describe(site));
    return true;
  };

  const call = (op, form) => request(op, form, 1);

  const deliver = (call, ok, text, isRounded) => {
    const waiting = mapGet(pending, call);
    if (waiting === undefined) return;
    mapDelete(pending, call);
    const value = read(text, isRounded);
    if (ok) {
      const { form } = waiting;
      const hasRoom = mapSize(answers) < MAX_ANSWERS || mapGet(answers, form) !== undefined;
      if (form !== undefined && hasRoom) mapSet(answers, form, shapeOf(value));
      waiting.resolve(value);
    }
    else waiting.reject(fail(waiting.site, value, call));
  };

  const kindOf = (value) => {
    if (value === null) return "null";
    if (isArray(value)) return "an array";
    if (isPromise(value)) return "a promise (is an `await` missing?)";
    if (typeof value !== "object") return typeof value === "undefined" ? "undefined" : `a ${typeof value}`;
    return isPlain(value) ? "an object" : "an object that is not plain";
  };

  const isPlain = (value) => {
    if (typeof value !== "object" || value === null || isArray(value) || isPromise(value)) return false;
    return !(value instanceof Map || value instanceof Set || value instanceof Date || value instanceof Error);
  };

  const argumentsJson = (args, form) => {
    if (args.length > 1) throw new TypeError(`${form} takes one object with named arguments; got ${args.length} arguments`);
    const [arg] = args;
    if (arg === undefined) return "{}";
    if (!isPlain(arg)) throw new TypeError(`${form} takes one object with named arguments; got ${kindOf(arg)}`);
    const json = toJson(arg, "an argument cannot be sent");
    // A `toJSON` can return anything.
    if (json[0] !== "{") throw new TypeError(`${form} takes an object; its toJSON() answered something else`);
    return json;
  };

  const callTool = (server, tool, args, form, made) => {
    const json = argumentsJson(args, form);
    return call(`{"Tool":{"server":${stringify(server)},"tool":${stringify(tool)},"args":${json}}}`, made);
  };

  const text = (value, what) => {
    if (typeof value === "string") return value;
    throw new TypeError(`${what} must be a string; got ${kindOf(value)}`);
  };

  const texts = (value, what) => {
    if (!isArray(value)) return [text(value, what)];
    return arrayFrom(value).map((item) => text(item, what));
  };

  const options = (value, what) => {
    if (value === undefined || value === null) return create(null);
    if (!isPlain(value)) throw new TypeError(`${what} takes its options as an object; got ${kindOf(value)}`);
    return value;
  };

  const count = (value, what) => {
    if (value === undefined || value === null) return null;
    if (isInteger(value) && value >= 0 && value <= 0xffffffff) return value;
    throw new TypeError(`${what} must be a whole number`);
  };

  const optionalText = (value, what) => (value === undefined || value === null ? null : text(value, what));

  // ---- server namespaces ----

  const refuse = () => false;

  // Any name may be that of a tool. What the language itself calls by one is told by its arguments, which no tool takes:
  // `await` gives functions to `then`, and gets the same server without a `then`; JSON gives the key to `toJSON`.
  const node = (server, ident, path, isAwaited = false) => {
    const shown = join([ident, ...path], ".");
    const traps = {
      __proto__: null,
      get: (_target, key) => {
        if (key === Symbol.toPrimitive) return () => `[forge ${shown}]`;
        if (typeof key !== "string" || (key === "then" && isAwaited)) return undefined;
        return node(server, ident, [...path, key]);
      },
      apply: (_target, _self, args) => {
        const last = path[path.length - 1];
        const owner = () => node(server, ident, path.slice(0, -1), true);
        if (last === "then" && typeof args[0] === "function") return void args[0](owner());
        if (last === "toJSON" && typeof args[0] === "string") return owner();
        if (path.length === 0) throw new TypeError(`${shown} is a server, not a tool: call ${shown}.<tool>({ … })`);
        return callTool(server, join(path, "."), args, `${shown}({ name: value })`, shown);
      },
      set: refuse,
      defineProperty: refuse,
      deleteProperty: refuse,
      setPrototypeOf: refuse,
      preventExtensions: refuse,
      getPrototypeOf: () => null,
      ownKeys: () => [],
      getOwnPropertyDescriptor: () => undefined,
      has: () => false,
    };
    const target = () => {};
    delete target.name;
    delete target.length;
    return new Proxy(target, traps);
  };

  // Arguments of the script: a list of one object, or an empty one.
  let input = [];

  // Called with the run's servers, its limit of calls and its arguments, before any code of the script. A server never
  // replaces a global that exists.
  const expose = (run) => {
    const { servers, calls, args } = read(run);
    callsLeft = calls;
    if (args !== undefined) input = [args];
    for (const { ident, name } of servers) {
      if (ident in globals) continue;
      defineProperty(globals, ident, { value: node(name, ident, []), enumerable: true });
    }
  };

  // ---- forge, manifest ----

  const plainError = (index, error) => {
    const origin = (typeof error === "object" && error !== null) ? weakGet(origins, error) : undefined;
    if (origin !== undefined) {
      const { code, message, retryable, suggested_fix, data } = origin.error;
      const plain = { index, code, message, retryable, data };
      define(plain, "suggested_fix", suggested_fix);
      return plain;
    }
    const message = safe(() => (error instanceof Error ? String(error.message) : inspect(error)), "unknown error");
    return { index, code: "SCRIPT_ERROR", message, retryable: false };
  };

  const parallel = async (tasks, given) => {
    const { concurrency = 8, failFast = false } = options(given, "forge.parallel");
    if (!isArray(tasks)) {
      throw new TypeError(`forge.parallel takes an array of functions: forge.parallel([() => …]); got ${kindOf(tasks)}`);
    }
    if (!isInteger(concurrency) || concurrency < 1) throw new TypeError("concurrency must be a whole number from 1 up");
    const results = [];
    const errors = [];
    for (const task of tasks) {
      if (typeof task !== "function" && !isPromise(task)) {
        throw new TypeError(`forge.parallel takes functions: forge.parallel([() => …]); got ${kindOf(task)}`);
      }
      append(results, null);
    }
    let next = 0;
    let aborted = false;
    const lane = async () => {
      while (next < results.length && !aborted) {
        const index = next++;
        const task = tasks[index];
        try {
          const value = await (typeof task === "function" ? task() : task);
          results[index] = value === undefined ? null : value;
        } catch (error) {
          append(errors, plainError(index, error));
          if (failFast) aborted = true;
        }
      }
    };
    const lanes = [];
    for (let i = 0; i < concurrency && i < results.length; i++) append(lanes, lane());
    for (const running of lanes) await running;
    errors.sort((a, b) => a.index - b.index);
    // Each fix stands in an answer once: it can be read of the others, where it would only be noise.
    const told = { __proto__: null };
    for (const error of errors) {
      const { suggested_fix: fix } = error;
      if (fix === undefined || told[fix] !== undefined) continue;
      told[fix] = true;
      defineProperty(error, "suggested_fix", { value: fix, writable: true, enumerable: true, configurable: true });
    }
    return outcomes(results, errors, aborted);
  };

  // Failed items of `forge.parallel` at whose errors the script has not looked, and the first of them.
  const unseen = { count: 0, first: undefined };

  // The results, as `Promise.all` has them. The rest stands beside them, where neither JSON nor a loop comes upon it.
  const outcomes = (results, errors, aborted) => {
    let isNew = errors.length > 0;
    if (isNew) {
      unseen.count += errors.length;
      unseen.first ??= `[${errors[0].index}] ${errors[0].code}: ${errors[0].message}`;
    }
    const get = () => {
      if (isNew) unseen.count -= errors.length;
      isNew = false;
      return errors;
    };
    define(results, "results", results);
    define(results, "aborted", aborted);
    return defineProperty(results, "errors", { get, configurable: true });
  };

  const MAX_FIRST = 300;

  // Failed items are nulls among the results: a script that took them for answers is told.
  const tellUnseen = () => {
    if (unseen.count === 0) return;
    const items = unseen.count === 1 ? "1 item failed and is null" : `${unseen.count} items failed and are null`;
    const first = slice(toWellFormed(unseen.first), 0, MAX_FIRST);
    host.output(true, `forge.parallel: ${items}; the script did not read \`.errors\`; first: ${first}`);
  };

  const stash = {
    put: (key, value, given) => {
      const ttl_secs = count(options(given, "forge.stash.put").ttl, "ttl");
      const json = toJson(value, "the value cannot be stored");
      return request(`{"StashPut":{"key":${stringify(text(key, "key"))},"value":${json},"ttl_secs":${ttl_secs}}}`);
    },
    get: (key) => request(stringify({ StashGet: { key: text(key, "key") } }), "forge.stash.get"),
    delete: (key) => request(stringify({ StashDelete: { key: text(key, "key") } })),
    keys: () => request('"StashKeys"'),
  };
  // The name that maps and storages have for it.
  stash.set = stash.put;

  const results = {
    list: () => request('"ResultsList"'),
    get: (path) => request(stringify({ ResultsGet: { path: text(path, "path") } }), "forge.results.get"),
  };

  const runs = {
    list: () => request('"RunsList"'),
    get: (run) => request(stringify({ RunsGet: { run: text(run, "run") } }), "forge.runs.get"),
    cancel: (run) => request(stringify({ RunsCancel: { run: text(run, "run") } })),
  };

  const forge = {
    callTool: (server, tool, ...args) => {
      const form = "forge.callTool(server, tool, { name: value })";
      if (typeof server !== "string" || typeof tool !== "string") {
        throw new TypeError(`it is ${form}, with the server and the tool as two texts; got ${kindOf(server)} and ${kindOf(tool)}`);
      }
      return callTool(server, tool, args, form, "forge.callTool");
    },
    server: (name) => node(text(name, "server"), name, []),
    parallel,
    readResource: (server, uri) =>
      call(stringify({ ReadResource: { server: text(server, "server"), uri: text(uri, "uri") } }), "forge.readResource"),
    prompt: (server, name, ...args) => {
      const json = argumentsJson(args, "forge.prompt(server, name, { name: value })");
      const to = `"server":${stringify(text(server, "server"))},"name":${stringify(text(name, "name"))}`;
      return call(`{"Prompt":{${to},"args":${json}}}`, "forge.prompt");
    },
    callsLeft: () => callsLeft,
    calls_left: () => callsLeft,
    stash,
    results,
    runs,
    literal: (source) => {
      // An empty list is JSON too, and came as a value.
      if (typeof source !== "string") return source;
      if (source.length > MAX_COPIED) throw new RangeError(`the text has ${source.length} characters, over the limit of ${MAX_COPIED}`);
      const json = host.native("literal", toWellFormed(source));
      if (json[0] === "!") throw new TypeError(slice(json, 1));
      return read(slice(json, 1));
    },
    progress: (report) => host.progress(toWellFormed(text(report, "report"))),
    ls: (path = "/", given = undefined) => {
      const depth = typeof given === "number" ? given : options(given, "forge.ls").depth;
      return request(stringify({ Ls: { path: text(path, "path"), depth: count(depth, "depth") } }), "forge.ls");
    },
    cat: (paths, given) => {
      const lines = typeof given === "string" ? given : options(given, "forge.cat").lines;
      return request(stringify({ Cat: { paths: texts(paths, "path"), lines: optionalText(lines, "lines") } }), "forge.cat");
    },
    search: (queries, given) => {
      const { limit, path } = options(given, "forge.search");
      const fields = { limit: count(limit, "limit"), path: optionalText(path, "path") };
      return request(stringify({ Search: { queries: texts(queries, "query"), ...fields } }), "forge.search");
    },
    ForgeError,
  };

  const servers = () => request('"Servers"');
  // `await manifest.servers` works as well as `await manifest.servers()`.
  define(servers, "then", (resolve, reject) => then(servers(), resolve, reject));

  const manifest = {
    servers,
    search: (query, given) => {
      const limit = count(options(given, "manifest.search").limit, "limit");
      return request(stringify({ SearchTools: { query: text(query, "query"), limit } }));
    },
    tool: (server, tool) => request(stringify({ ToolInfo: { server: text(server, "server"), tool: text(tool, "tool") } })),
  };

  // ---- console, timers ----

  const inspect = (value) => {
    if (typeof value === "string") return value;
    if (typeof value === "function") {
      const named = safe(() => value.name, "");
      return typeof named === "string" ? `[function ${named}]` : safe(() => String(value), "[function]");
    }
    if (typeof value !== "object" || value === null) return String(value);
    return safe(() => inspectObject(value), "[object]");
  };

  const inspectObject = (value) => {
    if (value instanceof Error) return errorText(value);
    if (isPromise(value)) return "[promise: is an `await` missing?]";
    const show = function (key, item) {
      if (typeof item === "function") return "[function]";
      if (typeof item === "symbol" || (typeof item === "number" && !isFinite(item))) return String(item);
      if (item === null && this[key] instanceof Date) return "Invalid Date";
      if (typeof item !== "object" || item === null) return item;
      if (isPromise(item)) return "[promise]";
      if (item instanceof Error && !(item instanceof ForgeError)) return errorText(item);
      if (item instanceof Map) return { [`Map(${mapSize(item)})`]: arrayFrom(mapEntries(item)) };
      if (item instanceof Set) return { [`Set(${setSize(item)})`]: arrayFrom(setValues(item)) };
      if (item instanceof RegExp) return String(item);
      if (isView(item) && item.length !== undefined) return { [`${slice(tagOf(item), 8, -1)}(${item.length})`]: arrayFrom(item) };
      const what = lost(item);
      return what === undefined ? item : `[${split(what, ":")[0]}]`;
    };
    try {
      return stringify(value, show);
    } catch (error) {
      const why = safe(() => String(error.message), "");
      return /circular|cyclic/i.test(why) ? "[object that contains itself]" : `[object that cannot be shown: ${why}]`;
    }
  };

  const errorText = (error) => `${error.name}: ${error.message}${reasonText(error)}`;

  const print = (isError) => (...args) => {
    const parts = [];
    for (const arg of args) append(parts, inspect(arg));
    host.output(isError, toWellFormed(join(parts, " ")));
  };

  const console = {
    log: print(false),
    info: print(false),
    debug: print(false),
    dir: print(false),
    table: print(false),
    warn: print(true),
    error: print(true),
    trace: print(true),
  };

  const MAX_TIMERS = 1000;
  const MAX_DELAY_MS = 60_000;
  const timers = new Map();
  let timersMade = 0;

  const setTimeout = (callback, delay = 0, ...args) => {
    if (typeof callback !== "function") throw new TypeError(`setTimeout takes a function; got ${kindOf(callback)}`);
    const ms = Number(delay) || 0;
    if (ms > MAX_DELAY_MS) throw new RangeError(`setTimeout: a delay of ${ms} ms is over the limit of ${MAX_DELAY_MS}`);
    if (timersMade >= MAX_TIMERS) throw new RangeError(`setTimeout: more than ${MAX_TIMERS} timers in one run`);
    timersMade += 1;
    const id = timersMade;
    mapSet(timers, id, () => apply(callback, undefined, args));
    const unsent = host.timer(id, ms > 0 ? ms : 0);
    if (typeof unsent === "string") {
      const site = new ForgeError("INTERNAL", "");
      if (!isLimit(site, unsent)) throw site;
    }
    return id;
  };

  const clearTimeout = (id) => {
    if (mapGet(timers, id) === undefined) return;
    mapDelete(timers, id);
    host.timer(id, -1);
  };

  const fire = (id) => {
    const callback = mapGet(timers, id);
    mapDelete(timers, id);
    if (callback !== undefined) callback();
  };

  const queueMicrotask = (callback) => {
    if (typeof callback !== "function") throw new TypeError(`queueMicrotask takes a function; got ${kindOf(callback)}`);
    then(Promise.resolve(), () => callback());
  };

  const web = makeWeb(host, (value) => value instanceof ExactNumber);

  // ---- the realm ----

  // Awaits the script and passes its value or error to the host.
  const run = async (main) => {
    let value;
    try {
      value = toJson(await main(input), "the result cannot be returned");
    } catch (error) {
      tellUnseen();
      host.settle(false, describe(error));
      return;
    }
    tellUnseen();
    host.settle(true, value);
  };

  // Assigning to an inherited read-only property throws in strict mode. Plain code such as `this.name = …` in an
  // error class must still work when the prototypes are frozen, so those properties become accessors.
  const allowOverride = (prototype) => {
    for (const key of getOwnPropertyNames(prototype)) {
      const { value, writable, configurable, enumerable } = getOwnPropertyDescriptor(prototype, key);
      if (!writable || !configurable) continue;
      const set = function (replacement) {
        if (this === prototype) throw new TypeError(`${key} of a built-in prototype cannot be changed`);
        defineProperty(this, key, { value: replacement, writable: true, enumerable: true, configurable: true });
      };
      defineProperty(prototype, key, { get: () => value, set, enumerable, configurable: true });
    }
  };

  // Freezes everything reachable from `roots`, except spared objects. Does not descend where `isDone`.
  const freezeAll = (roots, isSpared, isDone) => {
    const seen = new Set();
    const queue = [];
    const visit = (value) => {
      if ((typeof value !== "object" && typeof value !== "function") || value === null) return;
      if (value === globals || seen.has(value) || isDone(value)) return;
      seen.add(value);
      queue[queue.length] = value;
    };
    for (const root of roots) visit(root);
    for (let i = 0; i < queue.length; i++) {
      const object = queue[i];
      const keys = ownKeys(object);
      // Most objects are functions with only a length and a name, which lead nowhere.
      const isLeaf = typeof object === "function" && keys.length === 2 && keys[0] === "length" && keys[1] === "name";
      for (let k = isLeaf ? keys.length : 0; k < keys.length; k++) {
        const { value, get, set } = getOwnPropertyDescriptor(object, keys[k]);
        visit(value);
        visit(get);
        visit(set);
      }
      visit(getPrototypeOf(object));
      if (!isSpared(object)) freeze(object);
    }
  };

  const constant = (key, value) => defineProperty(globals, key, { value, writable: false, configurable: false });

  // V8 allocates growable buffers from the system, past the counting allocator: they are removed.
  const fixBuffers = () => {
    const Native = globals.ArrayBuffer;
    const { construct } = Reflect;
    const Fixed = function ArrayBuffer(length) {
      if (new.target === undefined) throw new TypeError("Constructor ArrayBuffer requires 'new'");
      return construct(Native, [length], new.target);
    };
    for (const key of ["isView", Symbol.species, "prototype"]) {
      defineProperty(Fixed, key, getOwnPropertyDescriptor(Native, key));
    }
    defineProperty(Native.prototype, "constructor", { value: Fixed });
    defineProperty(globals, "ArrayBuffer", { value: Fixed });
  };

  // Time and chance of a run come from the host. The native constructor, which reads the system's clock, stays out of
  // reach behind a proxy.
  const fixClock = () => {
    const Native = globals.Date;
    const { construct } = Reflect;
    const source = String(Native);
    defineProperty(Native, "now", { value: host.now });
    defineProperty(globals.Math, "random", { value: host.random });
    const Clocked = new Proxy(Native, {
      __proto__: null,
      apply: () => String(new Clocked()),
      construct: (_target, args, target) => construct(Native, args.length === 0 ? [host.now()] : args, target),
    });
    // Some engines name the time zone here.
    for (const key of ["toString", "toTimeString"]) {
      const native = uncurry(Native.prototype[key]);
      if (!includes(split(native(new Native(0)), ""), "(")) continue;
      const plain = { [key]() { return split(native(this), " (")[0]; } };
      defineProperty(Native.prototype, key, { value: plain[key] });
    }
    if (String(Clocked) !== source) define(Native, "toString", { toString: () => source }.toString);
    defineProperty(Native.prototype, "constructor", { value: Clocked });
    defineProperty(globals, "Date", { value: Clocked });
  };

  // Formats that take the present for a missing date.
  const fixFormats = () => {
    const prototype = globals.Intl?.DateTimeFormat?.prototype;
    if (prototype === undefined) return;
    const given = (date) => (date === undefined ? host.now() : date);
    const native = uncurry(getOwnPropertyDescriptor(prototype, "format").get);
    const nativeParts = uncurry(prototype.formatToParts);
    const bound = new WeakMap();
    const { get } = getOwnPropertyDescriptor({
      get format() {
        const format = native(this);
        if (weakGet(bound, this) === undefined) weakSet(bound, this, (date) => format(given(date)));
        return weakGet(bound, this);
      },
    }, "format");
    const { formatToParts } = { formatToParts(date) { return nativeParts(this, given(date)); } };
    defineProperty(prototype, "format", { get });
    defineProperty(prototype, "formatToParts", { value: formatToParts });
  };

  // Prototypes that no walk from the globals reaches: only syntax and natives create their instances.
  const hiddenIntrinsics = () => {
    const made = [
      async () => {}, function* () {}, async function* () {}, (function* () {})(), (async function* () {})(),
      [][Symbol.iterator](), new Map().entries(), new Set().values(), ""[Symbol.iterator](), "".matchAll(/x/g),
      new ExactNumber("0"),
    ];
    const { Iterator } = globals;
    if (Iterator?.from) {
      const wrapped = Iterator.from({ next: () => ({ done: true }) });
      append(made, wrapped);
      append(made, wrapped.map((item) => item));
    }
    return made;
  };

  // The same for `Intl.Segmenter`. Its instances cannot be copied with a realm, and the first takes V8 12 ms and
  // 3 MiB: this waits until a script creates one.
  const lockSegments = () => {
    const prototype = globals.Intl?.Segmenter?.prototype;
    if (prototype === undefined) return;
    const native = uncurry(prototype.segment);
    let isLocked = false;
    const { segment } = {
      segment(input) {
        const made = native(this, input);
        if (!isLocked) freezeAll([getPrototypeOf(made), getPrototypeOf(made[Symbol.iterator]())], () => false, isFrozen);
        isLocked = true;
        return made;
      },
    };
    defineProperty(prototype, "segment", { value: segment });
  };

  const api = { forge, manifest, console, ForgeError, setTimeout, clearTimeout, queueMicrotask, ...web };

  const UNWANTED = [
    "eval", "WebAssembly", "SharedArrayBuffer", "Atomics", "WeakRef", "FinalizationRegistry", "gc", "performance",
    "Temporal", "Deno", "__bootstrap", "print", "load", "quit", "navigator", "InternalError", "DOMException", "CallSite",
  ];
  // What V8 extends by features of its flags whenever it makes a realm from a snapshot. Frozen by `lock`, after that; a
  // later V8 that extends more leaves objects that are not frozen, which the attacks find.
  const extended = () => {
    const { Intl, Iterator, Map, Math, DataView, Promise, RegExp, Uint8Array, WeakMap } = globals;
    const asyncIterator = getPrototypeOf(getPrototypeOf((async function* () {}).prototype));
    return [
      Error, Promise, Map.prototype, WeakMap.prototype, Iterator, Iterator.prototype, asyncIterator, RegExp, Math,
      DataView.prototype, Uint8Array, Uint8Array.prototype, Intl.Locale.prototype,
    ];
  };

  // Most of `lock`, for an engine that copies realms: done before they are copied.
  let spared = [];
  // Globals that are locked already.
  const known = new Set();
  let isPrepared = false;
  const prepare = () => {
    lockIntrinsics();
    const roots = hiddenIntrinsics();
    for (const key of ownKeys(api)) {
      append(roots, api[key]);
      // V8 adds its own one later.
      if (key === "queueMicrotask") continue;
      constant(key, api[key]);
      known.add(key);
    }
    for (const key of getOwnPropertyNames(globals)) {
      const descriptor = getOwnPropertyDescriptor(globals, key);
      if (includes(UNWANTED, key) || known.has(key)) continue;
      append(roots, descriptor.value);
      if (descriptor.configurable && "value" in descriptor) constant(key, descriptor.value);
      known.add(key);
    }
    spared = extended();
    freezeAll(roots, (object) => includes(spared, object), () => false);
    isPrepared = true;
  };

  const lockIntrinsics = () => {
    fixBuffers();
    fixClock();
    fixFormats();
    fixJson();
    lockSegments();
    allowOverride(Object.prototype);
    for (const key of ["Error", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError"]) {
      allowOverride(globals[key].prototype);
    }
    allowOverride(globals.AggregateError.prototype);
  };

  // Called before any code of the script.
  const lock = () => {
    const roots = isPrepared ? spared : hiddenIntrinsics();
    for (const key of UNWANTED) {
      // The engine still creates some of these, such as QuickJS's InternalError.
      append(roots, globals[key]);
      delete globals[key];
    }
    // QuickJS has setters here, which freezing would not stop; they expose the functions on the stack.
    for (const key of ["prepareStackTrace", "stackTraceLimit"]) {
      if (getOwnPropertyDescriptor(Error, key)?.set) defineProperty(Error, key, { value: undefined, writable: false });
    }
    if (!isPrepared) lockIntrinsics();
    for (const key of ownKeys(api)) if (!known.has(key)) constant(key, api[key]);
    append(roots, getPrototypeOf(globals));
    for (const key of ownKeys(globals)) {
      if (known.has(key)) continue;
      const descriptor = getOwnPropertyDescriptor(globals, key);
      append(roots, descriptor.value);
      if (descriptor.configurable && "value" in descriptor) constant(key, descriptor.value);
    }
    // A frozen object was walked before: nothing else could have frozen anything.
    freezeAll(roots, () => false, isPrepared ? isFrozen : () => false);
  };
  return { prepare, lock, run, deliver, fire, expose, describe };
};
