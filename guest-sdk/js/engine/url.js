// URL and URLSearchParams, for addresses like those of the web: scheme://user@host:port/path?query#fragment.

const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443" };

export class URLSearchParams {
  #pairs = [];
  #changed = () => {};

  constructor(init = "", changed) {
    if (changed !== undefined) this.#changed = changed;
    if (typeof init === "string") {
      for (const part of init.replace(/^\?/, "").split("&")) {
        if (part === "") continue;
        const at = part.indexOf("=");
        const [name, value] = at < 0 ? [part, ""] : [part.slice(0, at), part.slice(at + 1)];
        this.#pairs.push([unplus(name), unplus(value)]);
      }
    } else {
      const pairs = Symbol.iterator in init ? init : Object.entries(init);
      for (const [name, value] of pairs) this.#pairs.push([String(name), String(value)]);
    }
  }

  get size() {
    return this.#pairs.length;
  }

  get(name) {
    return this.#pairs.find((pair) => pair[0] === name)?.[1] ?? null;
  }

  getAll(name) {
    return this.#pairs.filter((pair) => pair[0] === name).map((pair) => pair[1]);
  }

  has(name) {
    return this.#pairs.some((pair) => pair[0] === name);
  }

  append(name, value) {
    this.#pairs.push([String(name), String(value)]);
    this.#changed();
  }

  set(name, value) {
    const first = this.#pairs.findIndex((pair) => pair[0] === name);
    if (first < 0) return this.append(name, value);
    this.#pairs = this.#pairs.filter((pair, i) => i <= first || pair[0] !== name);
    this.#pairs[first] = [String(name), String(value)];
    this.#changed();
  }

  delete(name) {
    this.#pairs = this.#pairs.filter((pair) => pair[0] !== name);
    this.#changed();
  }

  sort() {
    this.#pairs.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0));
    this.#changed();
  }

  forEach(callback) {
    for (const [name, value] of this.#pairs) callback(value, name, this);
  }

  *entries() {
    yield* this.#pairs.map((pair) => [...pair]);
  }

  *keys() {
    for (const [name] of this.#pairs) yield name;
  }

  *values() {
    for (const [, value] of this.#pairs) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toString() {
    return this.#pairs.map((pair) => pair.map(plus).join("=")).join("&");
  }
}

export class URL {
  constructor(url, base) {
    const text = String(url).trim();
    const whole = parse(text);
    if (whole !== null) Object.assign(this, whole);
    else if (base !== undefined) Object.assign(this, resolve(text, new URL(base)));
    else throw new TypeError(`${text} is not a URL`);
    this.pathname = dotless(this.pathname);
    const params = new URLSearchParams(this.search, () => {
      const query = params.toString();
      this.search = query && `?${query}`;
    });
    Object.defineProperty(this, "searchParams", { value: params, enumerable: false });
  }

  static canParse(url, base) {
    try {
      return new URL(url, base) !== null;
    } catch {
      return false;
    }
  }

  get host() {
    return this.port ? `${this.hostname}:${this.port}` : this.hostname;
  }

  get origin() {
    return `${this.protocol}//${this.host}`;
  }

  get href() {
    const secret = this.password && `:${this.password}`;
    const user = this.username || secret ? `${this.username}${secret}@` : "";
    return `${this.protocol}//${user}${this.host}${this.pathname}${this.search}${this.hash}`;
  }

  toString() {
    return this.href;
  }

  toJSON() {
    return this.href;
  }
}

function parse(text) {
  const found = /^([a-z][a-z0-9+.-]*:)\/\/(?:([^/?#@:]*)(?::([^/?#@]*))?@)?(\[[0-9a-f:.]+\]|[^/?#:\s]*)(?::([0-9]*))?([^?#]*)(\?[^#]*)?(#.*)?$/i.exec(text);
  if (found === null) return null;
  const protocol = found[1].toLowerCase();
  const [, , username = "", password = "", hostname, port = "", pathname, search = "", hash = ""] = found;
  if ((hostname === "" && protocol !== "file:") || (pathname !== "" && !pathname.startsWith("/"))) return null;
  return {
    protocol,
    username,
    password,
    hostname: hostname.toLowerCase(),
    port: port === PORTS[protocol] ? "" : port,
    pathname: escaped(pathname || "/"),
    search: search === "?" ? "" : escaped(search),
    hash: hash === "#" ? "" : escaped(hash),
  };
}

/** A relative address, seen from `base`. */
function resolve(text, base) {
  if (text.startsWith("//")) return parse(base.protocol + text) ?? refuse(text);
  const [, path, search = "", hash = ""] = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(text);
  const { protocol, username, password, hostname, port } = base;
  const folder = base.pathname.slice(0, base.pathname.lastIndexOf("/") + 1);
  return {
    protocol,
    username,
    password,
    hostname,
    port,
    pathname: path === "" ? base.pathname : escaped(path.startsWith("/") ? path : folder + path),
    search: search === "" && path === "" ? base.search : escaped(search),
    hash: escaped(hash),
  };
}

function refuse(text) {
  throw new TypeError(`${text} is not a URL`);
}

function dotless(path) {
  const parts = [];
  const given = path.split("/").slice(1);
  given.forEach((part, i) => {
    const last = i === given.length - 1;
    if (part === "..") parts.pop();
    if (part !== "." && part !== "..") parts.push(part);
    else if (last) parts.push("");
  });
  return `/${parts.join("/")}`;
}

/** Percent-encodes what may not stand in an address, and leaves alone what already is. */
function escaped(text) {
  return text.toWellFormed().replace(/[^\x21\x23-\x3b\x3d\x3f-\x5f\x61-\x7e]/gu, (character) => encodeURIComponent(character));
}

function plus(text) {
  return encodeURIComponent(text.toWellFormed()).replace(/%20/g, "+").replace(/[!'()~]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

function unplus(text) {
  const spaced = text.replace(/\+/g, " ");
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}
