// What an operator grants a plugin: the form in which the API has it, and how the flags of `windlass plugin grant` add to it.

export interface Grant {
    limits: Limits;
    http: string[];
    private_http: string[];
    folders: Record<string, { path: string; write: boolean }>;
    environment: Record<string, string>;
    secrets: string[];
    spawn: string[];
}

export type LimitName = 'memory' | 'cpu_time' | 'attempt_timeout' | 'stall_timeout' | 'log' | 'checkpoint' | 'result' | 'concurrency';
export type HttpLimitName = 'connect' | 'first_byte' | 'between_bytes' | 'total' | 'request' | 'response' | 'at_once';
export type Limits = { [name in LimitName]?: string | number | null } & { http?: { [name in HttpLimitName]?: string | number | null } };

/** One thing that can be granted, as a flag and its value. */
export interface Flag {
    flag: string;
    value: string;
}

/** Something that an attempt tried and was not granted, as the API tells it. */
export interface Denial {
    /** The field of a grant that would allow it. */
    capability: 'http' | 'private_http' | 'secrets' | 'spawn';
    wanted: string;
    at: string;
    job_id: string;
    grant: Record<string, string[]>;
    times?: number;
}

const OF: Record<string, string> = { http: 'http', private_http: 'private-http', secrets: 'secret', spawn: 'spawn' };

/** What would allow it. */
export const flagFor = (denial: Denial): Flag => ({ flag: OF[denial.capability] ?? denial.capability, value: denial.grant[denial.capability]?.[0] ?? denial.wanted });

const with_ = (list: string[], value: string) => (list.includes(value) ? list : [...list, value]);
const HTTP_LIMIT = /^http-(connect|first-byte|between-bytes|total|request|response|at-once)$/;

/** The grant with one thing more, as the command would add it. */
export function granting(grant: Grant, { flag, value }: Flag): Grant {
    const at = value.indexOf('=');
    const [name, rest] = [value.slice(0, at), value.slice(at + 1)];
    switch (flag) {
        case 'http':
            return { ...grant, http: with_(grant.http, value) };
        case 'private-http':
            return { ...grant, private_http: with_(grant.private_http, value) };
        case 'read':
        case 'write':
            return { ...grant, folders: { ...grant.folders, [name]: { path: rest, write: flag === 'write' } } };
        case 'env':
            return { ...grant, environment: { ...grant.environment, [name]: rest } };
        case 'secret':
            return { ...grant, secrets: with_(grant.secrets, value) };
        case 'spawn':
            return { ...grant, spawn: with_(grant.spawn, value) };
    }
    const number = /^\d+$/.test(value) ? Number(value) : value;
    const http = HTTP_LIMIT.exec(flag)?.[1];
    if (http) return { ...grant, limits: { ...grant.limits, http: { ...grant.limits.http, [http.replaceAll('-', '_')]: number } } };
    return { ...grant, limits: { ...grant.limits, [flag.replaceAll('-', '_')]: number } };
}

/** What an error says was denied: it names the command that grants it. */
export function deniedIn(text: string, plugin: string): Flag[] {
    const found: Flag[] = [];
    const command = `windlass plugin grant ${plugin} --`;
    for (const part of text.split(command).slice(1)) {
        const [, flag, quoted, plain] = /^([a-z-]+) (?:'([^']*)'|(\S+))/.exec(part) ?? [];
        const value = quoted ?? plain?.replace(/[,;.)]$/, '');
        if (flag && value && !found.some((one) => one.flag === flag && one.value === value)) found.push({ flag, value });
    }
    return found;
}
