// Requests to the server. Everything that the console knows and does goes through here.
import { signal } from '@preact/signals';

/** What the server answered instead of what was asked for. */
export class ApiError extends Error {
    constructor(
        readonly status: number,
        readonly code: string,
        message: string,
    ) {
        super(message);
    }
    /** Nobody answered: the server is down, or the network is. */
    get unreachable() {
        return this.status === 0;
    }
}

/** The namespace of this tab, as its address says; empty for that of the session. */
export const namespace = signal('');
/** Raised with every answer that says that nobody is signed in. */
export const signedOut = signal(0);

const BASE = '/api/v1';

export function headers(unsafe: boolean): Record<string, string> {
    const set: Record<string, string> = {};
    if (namespace.value) set['X-Windlass-Namespace'] = namespace.value;
    // A page of another site cannot send it, whatever its browser would let it do otherwise.
    if (unsafe) set['X-Windlass-Console'] = '1';
    return set;
}

export interface Sent {
    body?: unknown;
    /** A body that is sent as it is. */
    raw?: BodyInit;
    type?: string;
    signal?: AbortSignal;
}

/** Sends a request and returns its response, whatever its status; `ApiError` if there is none. */
export async function send(method: string, path: string, sent: Sent = {}): Promise<Response> {
    const all = headers(method !== 'GET');
    let body: BodyInit | undefined = sent.raw;
    if (sent.body !== undefined) body = typeof sent.body === 'string' ? sent.body : JSON.stringify(sent.body);
    if (body !== undefined) all['content-type'] = sent.type ?? 'application/json';
    try {
        return await fetch(path.startsWith('/') ? BASE + path : path, { method, headers: all, body, signal: sent.signal, cache: 'no-store' });
    } catch (error) {
        if (error instanceof DOMException && error.name === 'AbortError') throw error;
        throw new ApiError(0, 'UNREACHABLE', 'the server does not answer');
    }
}

export async function refusal(response: Response): Promise<ApiError> {
    let code = String(response.status);
    let message = response.statusText || `status ${response.status}`;
    try {
        const body = await response.json();
        code = body.code ?? code;
        message = body.error ?? message;
    } catch {
        // Something between here and the server answered in its own words.
    }
    if (response.status === 401) signedOut.value += 1;
    return new ApiError(response.status, code, message);
}

export async function call<T = unknown>(method: string, path: string, sent: Sent = {}): Promise<T> {
    const response = await send(method, path, sent);
    if (!response.ok) throw await refusal(response);
    if (response.status === 204) return undefined as T;
    return (await response.json()) as T;
}

export const get = <T = unknown>(path: string, signal?: AbortSignal) => call<T>('GET', path, { signal });
export const post = <T = unknown>(path: string, body?: unknown, signal?: AbortSignal) => call<T>('POST', path, { body: body ?? {}, signal });

/** `/a/b?x=1` from parts; parameters that are empty are left out. */
export function path(parts: (string | number)[], query: Record<string, string | number | boolean | null | undefined> = {}): string {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
        if (value !== undefined && value !== null && value !== '' && value !== false) search.set(name, String(value));
    }
    const tail = search.toString();
    return '/' + parts.map((part) => encodeURIComponent(String(part))).join('/') + (tail ? '?' + tail : '');
}
