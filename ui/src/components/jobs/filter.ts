// What is typed to find jobs, and the filter that the server understands: `queue:emails state:dead tag:tenant=acme error:timeout`, and any
// other word is looked for in the payload.

export type Filter = Record<string, unknown>;

const FIELDS: Record<string, string> = {
    queue: 'queue',
    error: 'error_contains',
    plugin: 'plugin',
    version: 'plugin_version',
    worker: 'worker_id',
    key: 'unique_key',
    limit: 'limit_key',
    batch: 'batch_id',
    parent: 'parent_id',
    chain: 'chain_id',
    schedule: 'schedule',
    by: 'created_by',
    priority: 'priority',
    group: 'error_fingerprint',
    id: 'job_id_prefix',
};

/** For the help below the field. */
export const FILTER_HELP: [string, string][] = [
    ['words', 'in the payload, as they are written'],
    ['queue:NAME', 'of a queue'],
    ['state:dead,held', 'in one of these states'],
    ['tag:NAME=VALUE', 'with a tag'],
    ['error:TEXT', 'one of whose errors contains this'],
    ['group:FINGERPRINT', 'dead of one kind of error'],
    ['plugin:NAME  version:3f2a', 'run by a plugin, or a version of it'],
    ['worker:ID', 'run by a worker'],
    ['key:TEXT', 'with this unique key'],
    ['schedule:NAME', 'enqueued by a schedule'],
    ['batch:ID  chain:ID  parent:ID', 'that belong together'],
    ['priority:high', 'of a priority'],
    ['attempt:3', 'that were started so often or more'],
    ['age:1h', 'enqueued in this last time'],
    ['jq:.amount > 100', 'whose payload passes a jq filter; takes the rest of the line'],
];

/** Words; those in quotes stay together, also after `name:`. */
export function words(text: string): string[] {
    return [...text.matchAll(/(?:[^\s"]|"[^"]*"?)+/g)].map(([word]) => word.replaceAll('"', ''));
}

const AGES: Record<string, number> = { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3 };

export function parse(text: string, states: string[] = []): Filter {
    const filter: Filter = {};
    const chosen = new Set(states);
    const jq = /(?:^|\s)jq:(.*)$/s.exec(text);
    if (jq?.[1]?.trim()) filter.payload_jq = jq[1].trim();
    const loose: string[] = [];
    for (const word of words(jq ? text.slice(0, jq.index) : text)) {
        const [, name, value] = /^(\w+):(.+)$/s.exec(word) ?? [];
        const field = name && FIELDS[name];
        if (field) filter[field] = value;
        else if (name === 'state') (value as string).split(',').forEach((state) => chosen.add(state));
        else if (name === 'round' || name === 'attempt') filter[name === 'round' ? 'round' : 'attempt_min'] = Number(value);
        else if (name === 'tag' && value?.includes('=')) {
            const at = value.indexOf('=');
            filter.tags = { ...(filter.tags as object), [value.slice(0, at)]: value.slice(at + 1) };
        } else if (name === 'age' && /^\d+[smhd]$/.test(value ?? '')) {
            const ms = Number((value as string).slice(0, -1)) * (AGES[(value as string).slice(-1)] as number);
            // To the minute, so that the same search stays the same.
            filter.created_after = new Date(Math.floor((Date.now() - ms) / 60_000) * 60_000).toISOString();
        } else if (/^job_\w*$/.test(word)) filter.job_id_prefix = word;
        else loose.push(word);
    }
    if (loose.length) filter.payload_contains = loose.join(' ');
    if (chosen.size) filter.state = [...chosen];
    return filter;
}

const FLAGS: Record<string, string> = {
    queue: '--queue', error_contains: '--error-contains', plugin: '--plugin', plugin_version: '--plugin-version', worker_id: '--worker-id', unique_key: '--unique-key', batch_id: '--batch-id',
    parent_id: '--parent-id', chain_id: '--chain-id', priority: '--priority', payload_contains: '--payload-contains', payload_jq: '--payload-jq', created_after: '--created-after', schedule: '--schedule',
    limit_key: '--limit-key', created_by: '--created-by', error_fingerprint: '--error-fingerprint', job_id_prefix: '--job-id-prefix', attempt_min: '--attempt-min', round: '--round', scheduled_before: '--scheduled-before',
};

/** The same as flags of the command. */
export function asFlags(filter: Filter): string[] {
    const flags: string[] = [];
    for (const [name, value] of Object.entries(filter)) {
        if (name === 'state') flags.push('--state', (value as string[]).join(','));
        else if (name === 'tags') Object.entries(value as object).forEach(([tag, text]) => flags.push('--tag', `${tag}=${text}`));
        else if (FLAGS[name]) flags.push(FLAGS[name], String(value));
    }
    return flags;
}
