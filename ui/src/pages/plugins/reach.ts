// What a version asks for, what it is granted of that, and what another version could reach beyond it.
// The server decides; this says beforehand what it will decide, by the same rules.
import { bytes, count, span, type Flag } from '#kit';
import type { Capabilities, Grant, HttpLimitName, LimitName, Limits, Manifest, Version } from './model';

export type Kind = keyof Capabilities;
export const KINDS: Kind[] = ['http', 'read', 'write', 'environment', 'secrets', 'spawn'];

export interface Ask {
    kind: Kind;
    name: string;
}

/** As a person says it. */
export const WORDS: Record<Kind, (name: string) => string> = {
    http: (name) => `HTTP to ${name}`,
    read: (name) => `read ${name}`,
    write: (name) => `read and write ${name}`,
    environment: (name) => `variable ${name}`,
    secrets: (name) => `secret ${name}`,
    spawn: (name) => `start jobs in ${name}`,
};

export const asks = (manifest: Manifest): Ask[] => KINDS.flatMap((kind) => manifest.capabilities[kind].map((name) => ({ kind, name })));
export const keyOf = (ask: Ask) => `${ask.kind} ${ask.name}`;

/** `all`: whole; `part`: less than what was asked for; `by`: the grant that gives it. */
export interface Standing {
    gives: 'all' | 'part' | 'nothing';
    by?: string;
    private?: boolean;
}

const NOTHING: Standing = { gives: 'nothing' };

export function standing(ask: Ask, grant: Grant): Standing {
    const { kind, name } = ask;
    switch (kind) {
        case 'http':
            return hosts(name, grant);
        case 'read':
        case 'write': {
            const folder = grant.folders[name];
            if (!folder) return NOTHING;
            return { gives: kind === 'write' && !folder.write ? 'part' : 'all', by: folder.path };
        }
        case 'environment':
            return name in grant.environment ? { gives: 'all' } : NOTHING;
        case 'secrets':
            return grant.secrets.includes(name) ? { gives: 'all' } : NOTHING;
        case 'spawn': {
            const whole = grant.spawn.find((one) => queueIncludes(one, name));
            const part = grant.spawn.find((one) => queueIncludes(name, one));
            return whole ? { gives: 'all', by: whole } : part ? { gives: 'part', by: part } : NOTHING;
        }
    }
}

function hosts(name: string, grant: Grant): Standing {
    for (const [list, isPrivate] of [[grant.private_http, true], [grant.http, false]] as const) {
        const whole = list.find((one) => hostIncludes(one, name));
        if (whole) return { gives: 'all', by: whole, private: isPrivate };
    }
    const part = [...grant.private_http, ...grant.http].find((one) => hostIncludes(name, one));
    return part ? { gives: 'part', by: part } : NOTHING;
}

function hostParts(pattern: string): [string, string] {
    const [, host, port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(pattern) ?? [];
    return host === undefined ? [pattern, ''] : [host.toLowerCase().replace(/\.$/, ''), port ?? ''];
}

/** Whether all that `other` covers is covered by `pattern`, too. */
export function hostIncludes(pattern: string, other: string): boolean {
    const [[host, port], [otherHost, otherPort]] = [hostParts(pattern), hostParts(other)];
    if (port !== otherPort && !(port === '' && ['80', '443'].includes(otherPort))) return false;
    if (host === '*' || host === otherHost) return true;
    return host.startsWith('*.') && otherHost !== '*' && otherHost.endsWith(host.slice(1)) && !/^[\d.]+$/.test(otherHost);
}

export function queueIncludes(pattern: string, other: string): boolean {
    if (!pattern.endsWith('*')) return pattern === other;
    return other.replace(/\*$/, '').startsWith(pattern.slice(0, -1));
}

/** Whether what is asked for covers what a flag would grant. */
export function covers(asked: Ask[], { flag, value }: Flag): boolean {
    const name = flag === 'read' || flag === 'write' || flag === 'env' ? (value.split('=')[0] as string) : value;
    return asked.some((ask) => {
        if (ask.kind === 'http') return (flag === 'http' || flag === 'private-http') && hostIncludes(ask.name, name);
        if (ask.kind === 'spawn') return flag === 'spawn' && queueIncludes(ask.name, name);
        return ask.name === name && ask.kind === ({ env: 'environment', secret: 'secrets' }[flag] ?? flag);
    });
}

interface Limit {
    key: LimitName | `http.${HttpLimitName}`;
    title: string;
    unit: 'size' | 'span' | 'count';
    /** What an attempt gets without a choice; null: no limit. */
    usual: number | null;
}

const MIB = 1024 * 1024;
export const LIMITS: Limit[] = [
    { key: 'memory', title: 'memory', unit: 'size', usual: 256 * MIB },
    { key: 'cpu_time', title: 'processor time', unit: 'span', usual: null },
    { key: 'attempt_timeout', title: 'time of an attempt', unit: 'span', usual: 3600_000 },
    { key: 'stall_timeout', title: 'time without a sign of life', unit: 'span', usual: null },
    { key: 'log', title: 'log', unit: 'size', usual: MIB },
    { key: 'checkpoint', title: 'checkpoint', unit: 'size', usual: 16 * MIB },
    { key: 'result', title: 'result', unit: 'size', usual: 16 * MIB },
    { key: 'concurrency', title: 'attempts at once', unit: 'count', usual: null },
    { key: 'http.connect', title: 'HTTP, to connect', unit: 'span', usual: 10_000 },
    { key: 'http.first_byte', title: 'HTTP, to the first byte', unit: 'span', usual: 120_000 },
    { key: 'http.between_bytes', title: 'HTTP, silence', unit: 'span', usual: 30_000 },
    { key: 'http.total', title: 'HTTP, a whole request', unit: 'span', usual: 900_000 },
    { key: 'http.request', title: 'HTTP, body of a request', unit: 'size', usual: 64 * MIB },
    { key: 'http.response', title: 'HTTP, body of an answer', unit: 'size', usual: 256 * MIB },
    { key: 'http.at_once', title: 'HTTP requests at once', unit: 'count', usual: 16 },
];

const SCALES: Record<string, number> = { GiB: 1024 * MIB, MiB: MIB, KiB: 1024, GB: 1e9, MB: 1e6, kB: 1e3, B: 1, ms: 1, s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 604800e3 };

/** `"1h30m"` in milliseconds, `"256MiB"` in bytes. */
export function amount(text: string | number | null | undefined, unit: Limit['unit']): number | null {
    if (text === null || text === undefined || text === '') return null;
    if (typeof text === 'number' || unit === 'count') return unit === 'span' && typeof text === 'number' ? text * 1000 : Number(text);
    return [...text.matchAll(/([\d.]+)([a-zA-Z]+)/g)].reduce((sum, [, number, scale]) => sum + Number(number) * (SCALES[scale ?? ''] ?? 0), 0);
}

export const rawLimit = (limits: Limits, key: Limit['key']) => (key.startsWith('http.') ? limits.http?.[key.slice(5) as HttpLimitName] : limits[key as LimitName]);
export const said = (value: number | null, unit: Limit['unit']) => (value === null ? 'no limit' : unit === 'size' ? bytes(value) : unit === 'span' ? span(value) : count(value));

const least = (...values: (number | null)[]) => values.reduce((a, b) => (a === null ? b : b === null ? a : Math.min(a, b)), null);

/** What an attempt gets, and whether more was asked for. */
export function limitOf(manifest: Manifest | undefined, grant: Grant, limit: Limit): { asked: number | null; gets: number | null; denied: boolean } {
    const asked = manifest ? amount(rawLimit(manifest.limits, limit.key), limit.unit) : null;
    const ceiling = amount(rawLimit(grant.limits, limit.key), limit.unit) ?? limit.usual;
    const gets = asked === null ? least(limit.usual, ceiling) : least(asked, ceiling);
    return { asked, gets, denied: asked !== null && ceiling !== null && asked > ceiling };
}

/** A line of the comparison: what, how it stands, and in which colour. */
export interface Row {
    what: string;
    stands: string;
    tone: '' | 'new' | 'denied' | 'gone';
    /** What to grant, if it is denied. */
    ask?: Ask;
}

/** What the newer version can reach, against the older one. */
export function compare(older: Version | undefined, newer: Version, grant: Grant): Row[] {
    const before = new Set(older ? asks(older.manifest).map(keyOf) : []);
    const now = asks(newer.manifest);
    const isNew = older ? 'new, ' : '';
    const rows = now.map((ask): Row => {
        const known = before.has(keyOf(ask));
        const stands = standing(ask, grant);
        const what = WORDS[ask.kind](ask.name);
        const beyond = stands.private ? ', private networks too' : ask.kind === 'read' || ask.kind === 'write' ? (stands.by ? `, ${stands.by}` : '') : '';
        if (stands.gives === 'all') return { what, stands: (known ? 'as before' : isNew + 'granted') + beyond, tone: known || !older ? '' : 'new' };
        if (stands.gives === 'part') return { what, stands: `${known ? 'as before, ' : isNew}granted in part: ${stands.by}`, tone: 'denied', ask };
        return { what, stands: known ? 'as before, denied' : isNew + 'denied', tone: 'denied', ask };
    });
    const gone = older ? asks(older.manifest).filter((ask) => !now.some((one) => keyOf(one) === keyOf(ask))) : [];
    rows.push(...gone.map((ask): Row => ({ what: WORDS[ask.kind](ask.name), stands: 'no longer asked for', tone: 'gone' })));
    for (const limit of LIMITS) {
        const [was, is] = [limitOf(older?.manifest, grant, limit), limitOf(newer.manifest, grant, limit)];
        const text = was.gets === is.gets || !older ? said(is.gets, limit.unit) : `${said(was.gets, limit.unit)} → ${said(is.gets, limit.unit)}`;
        const more = (is.gets ?? Infinity) > (was.gets ?? Infinity);
        if (is.denied) rows.push({ what: limit.title, stands: `${text}, of ${said(is.asked, limit.unit)} asked for`, tone: 'denied' });
        else if (was.gets !== is.gets || (limit.key === 'memory' && !older)) rows.push({ what: limit.title, stands: text, tone: more && older ? 'new' : '' });
    }
    return rows;
}

/** What came and what went, of two lists. */
export const changes = (before: string[], after: string[]) => ({ added: after.filter((one) => !before.includes(one)), gone: before.filter((one) => !after.includes(one)) });
