
// Functions of browsers and Node that need no host. Bytes cross to the natives as text, one character each.
const makeWeb = (host, isImmutable) => {
  const { ArrayBuffer, Date, Error, JSON, Map, Object, Promise, RangeError, RegExp, Set, String, Symbol, TypeError, Uint8Array } =
    globalThis;
  const { defineProperty, entries, getPrototypeOf } = Object;
  const { fromCharCode } = String;
  // JSON has no form for lone surrogates.
  const str = (value) => String(value).toWellFormed();

  const MAX_NATIVE = 8 << 20;
  const native = (name, text) => {
    if (text.length > MAX_NATIVE) {
      throw new RangeError(`${name}: ${text.length} characters or bytes are over the limit of ${MAX_NATIVE}`);
    }
    const answer = host.native(name, text);
    if (answer[0] === "!") throw new TypeError(answer.slice(1));
    return answer.slice(1);
  };

  const bytesOf = (text) => {
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  };

  const CHUNK = 4096;
  const textOf = (source, what) => {
    if (source === undefined) return "";
    const isBuffer = source instanceof ArrayBuffer;
    if (!isBuffer && !ArrayBuffer.isView(source)) throw new TypeError(`${what} takes an ArrayBuffer or a typed array`);
    const bytes = isBuffer ? new Uint8Array(source) : new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
    if (bytes.length > MAX_NATIVE) throw new RangeError(`${what}: ${bytes.length} bytes are over the limit of ${MAX_NATIVE}`);
    const parts = [];
    for (let i = 0; i < bytes.length; i += CHUNK) parts.push(fromCharCode.apply(undefined, bytes.subarray(i, i + CHUNK)));
    return parts.join("");
  };

  class TextEncoder {
    get encoding() {
      return "utf-8";
    }

    encode(text = "") {
      return bytesOf(native("TextEncoder", str(text)));
    }
  }

  class TextDecoder {
    #fatal;

    constructor(label = "utf-8", { fatal = false } = {}) {
      if (!/^utf-?8$/i.test(str(label).trim())) throw new RangeError(`TextDecoder: only utf-8 is known here, not ${label}`);
      this.#fatal = Boolean(fatal);
    }

    get encoding() {
      return "utf-8";
    }

    decode(source) {
      return native(this.#fatal ? "TextDecoder.fatal" : "TextDecoder", textOf(source, "TextDecoder.decode"));
    }
  }

  const pairsOf = (init) => {
    if (init === undefined || init === null) return [];
    if (init instanceof URLSearchParams) return [...init];
    if (typeof init !== "object") return JSON.parse(native("URLSearchParams", str(init).replace(/^\?/, "")));
    const pairs = typeof init[Symbol.iterator] === "function" ? [...init] : entries(init);
    return pairs.map((pair) => {
      const [name, value, ...more] = pair;
      if (more.length > 0 || value === undefined) throw new TypeError("URLSearchParams takes pairs of name and value");
      return [str(name), str(value)];
    });
  };

  class URLSearchParams {
    #pairs;
    #changed = () => {};

    constructor(init) {
      this.#pairs = pairsOf(init);
    }

    static of(query, changed) {
      const made = new URLSearchParams(query);
      made.#changed = () => changed(str(made));
      return made;
    }

    get size() {
      return this.#pairs.length;
    }

    append(name, value) {
      this.#pairs.push([str(name), str(value)]);
      this.#changed();
    }

    delete(name) {
      this.#pairs = this.#pairs.filter(([key]) => key !== str(name));
      this.#changed();
    }

    get(name) {
      const found = this.#pairs.find(([key]) => key === str(name));
      return found === undefined ? null : found[1];
    }

    getAll(name) {
      return this.#pairs.filter(([key]) => key === str(name)).map(([, value]) => value);
    }

    has(name) {
      return this.#pairs.some(([key]) => key === str(name));
    }

    set(name, value) {
      const found = this.#pairs.find(([key]) => key === str(name));
      if (found === undefined) return this.append(name, value);
      this.#pairs = this.#pairs.filter((pair) => pair === found || pair[0] !== found[0]);
      found[1] = str(value);
      this.#changed();
    }

    sort() {
      this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      this.#changed();
    }

    forEach(visit) {
      for (const [name, value] of this) visit(value, name, this);
    }

    keys() {
      return this.#pairs.map(([name]) => name)[Symbol.iterator]();
    }

    values() {
      return this.#pairs.map(([, value]) => value)[Symbol.iterator]();
    }

    entries() {
      return this.#pairs.map(([name, value]) => [name, value])[Symbol.iterator]();
    }

    [Symbol.iterator]() {
      return this.entries();
    }

    toString() {
      return native("URLSearchParams.toString", JSON.stringify(this.#pairs));
    }
  }

  class URL {
    #parts;
    #params;

    constructor(url, base) {
      this.#parts = JSON.parse(native("URL", JSON.stringify(base === undefined ? [str(url)] : [str(url), str(base)])));
    }

    static canParse(url, base) {
      try {
        return new URL(url, base) instanceof URL;
      } catch {
        return false;
      }
    }

    static parse(url, base) {
      return URL.canParse(url, base) ? new URL(url, base) : null;
    }

    static part(url, name) {
      return url.#parts[name];
    }

    static change(url, name, value) {
      url.#parts = JSON.parse(native("URL.set", JSON.stringify([url.#parts.href, name, str(value)])));
      if (name !== "hash" && name !== "params") url.#params = undefined;
    }

    get searchParams() {
      this.#params ??= of(this.#parts.search, (query) => change(this, "params", query));
      return this.#params;
    }

    toString() {
      return this.#parts.href;
    }

    toJSON() {
      return this.#parts.href;
    }
  }

  // These are not for scripts.
  const { change, part } = URL;
  const { of } = URLSearchParams;
  delete URL.change;
  delete URL.part;
  delete URLSearchParams.of;
  const PARTS = ["href", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];
  for (const name of [...PARTS, "origin"]) {
    const { get, set } = { get() { return part(this, name); }, set(value) { change(this, name, value); } };
    defineProperty(URL.prototype, name, { get, set: name === "origin" ? undefined : set, enumerable: true, configurable: true });
  }

  const noClone = (value, why) => {
    throw new TypeError(`structuredClone: ${typeof value === "function" ? "a function" : str(why)} cannot be copied`);
  };

  const copied = (value, seen) => {
    if (typeof value === "function" || typeof value === "symbol") noClone(value, "a symbol");
    if (typeof value !== "object" || value === null || isImmutable(value)) return value;
    if (seen.has(value)) return seen.get(value);
    const keep = (copy) => {
      seen.set(value, copy);
      return copy;
    };
    if (value instanceof Promise) noClone(value, "a promise");
    if (value instanceof Date) return keep(new Date(value.getTime()));
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return keep(value.slice(0));
    if (ArrayBuffer.isView(value)) {
      const { constructor } = getPrototypeOf(value);
      const buffer = copied(value.buffer, seen);
      return keep(new constructor(buffer, value.byteOffset, value.length ?? value.byteLength));
    }
    if (value instanceof Map) {
      const copy = keep(new Map());
      for (const [key, item] of value) copy.set(copied(key, seen), copied(item, seen));
      return copy;
    }
    if (value instanceof Set) {
      const copy = keep(new Set());
      for (const item of value) copy.add(copied(item, seen));
      return copy;
    }
    if (value instanceof Error) return keep(new Error(str(value.message)));
    const copy = keep(globalThis.Array.isArray(value) ? [] : {});
    if (globalThis.Array.isArray(value)) copy.length = value.length;
    for (const [key, item] of entries(value)) {
      defineProperty(copy, key, { value: copied(item, seen), writable: true, enumerable: true, configurable: true });
    }
    return copy;
  };

  const DIGESTS = ["SHA-256", "SHA-384", "SHA-512"];
  const digest = async (algorithm, data) => {
    const name = str(algorithm?.name ?? algorithm).toUpperCase();
    if (!DIGESTS.includes(name)) throw new TypeError(`crypto.subtle.digest: ${name} is not known here, but ${DIGESTS.join(", ")}`);
    return bytesOf(native(name, textOf(data, "crypto.subtle.digest"))).buffer;
  };

  return {
    atob: (text) => native("atob", str(text)),
    btoa: (text) => native("btoa", str(text)),
    structuredClone: (value) => copied(value, new Map()),
    TextEncoder,
    TextDecoder,
    URL,
    URLSearchParams,
    crypto: { subtle: { digest } },
  };
};
