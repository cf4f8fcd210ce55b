// `fetch` over wasi:http, with as many requests at once as the handler likes. Only in a component that was built with HTTP.

import { Fields, OutgoingBody, OutgoingRequest } from "host:http/types@0.2.6";
import { handle } from "host:http/outgoing-handler@0.2.6";

import { until } from "./loop.js";
import { said } from "./said.js";

const METHODS = ["get", "head", "post", "put", "delete", "connect", "options", "trace", "patch"];
/** The host sets these itself, and refuses them from a guest. */
const NOT_OURS = ["host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "http2-settings"];
const REDIRECTS = [301, 302, 303, 307, 308];
const MOST_REDIRECTS = 20;
const WRITE = 4096;
const READ = 65_536;

export class Headers {
  #values = new Map();

  constructor(init = []) {
    const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
    for (const [name, value] of pairs) this.append(name, value);
  }

  append(name, value) {
    const before = this.get(name);
    this.set(name, before === null ? value : `${before}, ${value}`);
  }

  set(name, value) {
    this.#values.set(String(name).toLowerCase(), String(value).trim());
  }

  get(name) {
    return this.#values.get(String(name).toLowerCase()) ?? null;
  }

  has(name) {
    return this.#values.has(String(name).toLowerCase());
  }

  delete(name) {
    this.#values.delete(String(name).toLowerCase());
  }

  forEach(callback) {
    for (const [name, value] of this) callback(value, name, this);
  }

  keys() {
    return this.#values.keys();
  }

  values() {
    return this.#values.values();
  }

  entries() {
    return this.#values.entries();
  }

  [Symbol.iterator]() {
    return this.entries();
  }
}

export class Response {
  #bytes;

  constructor(body = null, { status = 200, statusText = "", headers = [], url = "", redirected = false } = {}) {
    this.#bytes = body === null ? new Uint8Array() : toBytes(body);
    Object.assign(this, { status, statusText, headers: new Headers(headers), url, redirected, bodyUsed: false });
  }

  get ok() {
    return this.status >= 200 && this.status < 300;
  }

  async bytes() {
    if (this.bodyUsed) throw new TypeError("the body was read already");
    this.bodyUsed = true;
    return this.#bytes;
  }

  async arrayBuffer() {
    return (await this.bytes()).slice().buffer;
  }

  async text() {
    return new TextDecoder().decode(await this.bytes());
  }

  async json() {
    return JSON.parse(await this.text());
  }
}

/** The whole body is read before the promise is settled. */
async function fetch(input, init = {}) {
  let url = new URL(input);
  let method = String(init.method ?? "GET").toUpperCase();
  let body = init.body === undefined || init.body === null ? null : toBytes(init.body);
  const headers = new Headers(init.headers);
  if (body !== null && !headers.has("content-type")) {
    if (typeof init.body === "string") headers.set("content-type", "text/plain;charset=UTF-8");
    if (init.body instanceof URLSearchParams) headers.set("content-type", "application/x-www-form-urlencoded;charset=UTF-8");
  }
  for (let hops = 0; ; hops++) {
    init.signal?.throwIfAborted();
    const answer = await send(method, url, headers, body, init.signal);
    const location = answer.headers.get("location");
    if (!REDIRECTS.includes(answer.status) || location === null || init.redirect === "manual") {
      return new Response(answer.body, { ...answer, url: url.href, redirected: hops > 0 });
    }
    if (init.redirect === "error" || hops === MOST_REDIRECTS) throw failed(url, "it redirects, and that once too often");
    const next = new URL(location, url);
    if (next.origin !== url.origin) for (const name of ["authorization", "cookie"]) headers.delete(name);
    if (answer.status === 303 ? method !== "HEAD" : answer.status < 303 && method === "POST") {
      method = "GET";
      body = null;
      for (const name of ["content-type", "content-length"]) headers.delete(name);
    }
    url = next;
  }
}

async function send(method, url, headers, body, signal) {
  if (url.protocol !== "http:" && url.protocol !== "https:") throw failed(url, "only http and https addresses can be fetched");
  const request = described(method, url, headers, body);
  const outgoing = request.body();
  let future;
  try {
    future = handle(request, null);
    write(outgoing, body);
  } catch (error) {
    throw failed(url, words(error));
  }
  let answer;
  try {
    await until(future.subscribe(), signal);
    answer = future.get()?.val;
  } finally {
    future[Symbol.dispose]();
  }
  if (answer?.tag !== "ok") throw failed(url, words(answer?.val));
  return received(answer.val, url, signal);
}

function described(method, url, headers, body) {
  const encoder = new TextEncoder();
  const list = [...headers].filter(([name]) => !NOT_OURS.includes(name)).map(([name, value]) => [name, encoder.encode(value)]);
  if (body !== null && !headers.has("content-length")) list.push(["content-length", encoder.encode(String(body.length))]);
  try {
    const request = new OutgoingRequest(Fields.fromList(list));
    const known = METHODS.includes(method.toLowerCase());
    request.setMethod(known ? { tag: method.toLowerCase() } : { tag: "other", val: method });
    request.setScheme({ tag: url.protocol === "https:" ? "HTTPS" : "HTTP" });
    request.setAuthority(url.host);
    request.setPathWithQuery(url.pathname + url.search);
    return request;
  } catch (error) {
    throw failed(url, `the request is not valid: ${words(error)}`);
  }
}

function write(outgoing, body) {
  const stream = outgoing.write();
  try {
    for (let at = 0; body !== null && at < body.length; at += WRITE) {
      stream.blockingWriteAndFlush(body.subarray(at, at + WRITE));
    }
  } catch (error) {
    // The other side may answer without reading all of it; what it says tells more than that it stopped.
    if (said(error)?.tag !== "closed") throw error;
    stream[Symbol.dispose]();
    outgoing[Symbol.dispose]();
    return;
  }
  stream[Symbol.dispose]();
  OutgoingBody.finish(outgoing, null);
}

async function received(response, url, signal) {
  const decoder = new TextDecoder();
  const status = response.status();
  const fields = response.headers();
  const headers = new Headers(fields.entries().map(([name, value]) => [name, decoder.decode(new Uint8Array(value))]));
  fields[Symbol.dispose]();
  const incoming = response.consume();
  const stream = incoming.stream();
  const parts = [];
  try {
    for (;;) {
      await until(stream.subscribe(), signal);
      parts.push(new Uint8Array(stream.read(READ)));
    }
  } catch (error) {
    if (said(error)?.tag === undefined) throw error;
    if (said(error).tag !== "closed") throw failed(url, words(error));
  } finally {
    // A body that is dropped before its stream is a trap.
    for (const each of [stream, incoming, response]) each[Symbol.dispose]();
  }
  const body = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  parts.reduce((at, part) => (body.set(part, at), at + part.length), 0);
  return { status, headers, body };
}

function toBytes(body) {
  if (typeof body === "string" || body instanceof URLSearchParams) return new TextEncoder().encode(String(body));
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength);
  if (body instanceof ArrayBuffer) return new Uint8Array(body);
  throw new TypeError("a body can be a string, bytes or URLSearchParams");
}

function failed(url, why) {
  return new TypeError(`fetch ${url.href}: ${why}`);
}

/** What the server says, as a person would. */
function words(given) {
  const error = said(given);
  if (error instanceof Error) return error.message;
  // What to grant is added by the server.
  if (error?.tag === "HTTP-request-denied") return "the plugin may not send requests there";
  if (error?.tag === "last-operation-failed") return error.val.toDebugString();
  const detail = error?.val === undefined || error.val === null ? "" : `: ${JSON.stringify(error.val)}`;
  return `${String(error?.tag ?? "no answer").replaceAll("-", " ")}${detail}`;
}

Object.assign(globalThis, { Headers, Response, fetch });
