// The settings of a queue as texts of a form, and what is sent of them: only what was changed.
import { path, type Action } from '#kit';

interface Rate {
    count: number;
    per: string;
}

export interface QueueSettings {
    max_concurrency: number | null;
    rate: Rate | null;
    key_concurrency: number | null;
    key_rate: Rate | null;
    ageing: string | null;
    defaults: Record<string, string | number>;
    retention: Record<(typeof STATES)[number], { age: string; count: number | null }>;
    rounds: boolean;
    gate: { queue: string; lead: number; max_lead: number | null } | null;
}

export const STATES = ['completed', 'dead', 'cancelled'] as const;

export interface Draft {
    max_concurrency: string;
    rate: string;
    key_concurrency: string;
    key_rate: string;
    ageing: string;
    defaults: Record<string, string>;
    retention: Record<(typeof STATES)[number], { age: string; count: string }>;
    rounds: boolean;
    gate_queue: string;
    gate_lead: string;
    gate_max_lead: string;
}

const text = (value: string | number | null | undefined) => (value === null || value === undefined ? '' : String(value));
const rateText = (rate: Rate | null) => (rate ? `${rate.count}/${rate.per}` : '');

export const draftOf = (settings: QueueSettings): Draft => ({
    max_concurrency: text(settings.max_concurrency),
    rate: rateText(settings.rate),
    key_concurrency: text(settings.key_concurrency),
    key_rate: rateText(settings.key_rate),
    ageing: text(settings.ageing),
    // An alias of older clients is shown beside its name.
    defaults: Object.fromEntries(Object.entries(settings.defaults).filter(([key]) => key !== 'max_retries').map(([key, value]) => [key, text(value)])),
    retention: Object.fromEntries(STATES.map((state) => [state, { age: settings.retention[state].age, count: text(settings.retention[state].count) }])) as Draft['retention'],
    rounds: settings.rounds,
    gate_queue: text(settings.gate?.queue),
    gate_lead: text(settings.gate?.lead ?? 1),
    gate_max_lead: text(settings.gate?.max_lead),
});

const RATE = /^(\d+)\s*\/\s*(\S+)$/;
const rateOf = (value: string): Rate | null => {
    const [, count, per] = RATE.exec(value.trim()) ?? [];
    return count ? { count: Number(count), per: per as string } : null;
};

export function wrongIn(draft: Draft): string {
    const counts: [string, string][] = [['Jobs at once', draft.max_concurrency], ['At once for each limit key', draft.key_concurrency], ['Attempts', draft.defaults.max_attempts ?? ''], ...STATES.map((state): [string, string] => [`How many ${state}`, draft.retention[state].count])];
    const count = counts.find(([, value]) => value.trim() && !/^\d+$/.test(value.trim()));
    if (count) return `${count[0]}: write a whole number, or nothing.`;
    if ([draft.rate, draft.key_rate].some((value) => value.trim() && !rateOf(value))) return 'Write starts as 100/1m, or nothing.';
    if (draft.gate_queue.trim() && !/^\d+$/.test(draft.gate_lead.trim())) return 'Say by how many rounds it stays behind.';
    return '';
}

/** The members of the request: those that differ. */
export function bodyOf(before: Draft, after: Draft): Record<string, unknown> {
    const body: Record<string, unknown> = {};
    const number = (value: string) => (value.trim() ? Number(value) : null);
    if (before.max_concurrency !== after.max_concurrency) body.max_concurrency = number(after.max_concurrency);
    if (before.rate !== after.rate) body.rate = rateOf(after.rate);
    if (before.key_concurrency !== after.key_concurrency) body.key_concurrency = number(after.key_concurrency);
    if (before.key_rate !== after.key_rate) body.key_rate = rateOf(after.key_rate);
    if (before.ageing !== after.ageing) body.ageing = after.ageing.trim() || null;
    const filled = (defaults: Record<string, string>) => Object.fromEntries(Object.entries(defaults).filter(([, value]) => value.trim()).map(([key, value]) => [key, key === 'max_attempts' ? Number(value) : value.trim()]));
    const [was, is] = [filled(before.defaults), filled(after.defaults)];
    const keys = new Set([...Object.keys(was), ...Object.keys(is)]);
    if ([...keys].some((key) => was[key] !== is[key])) body.defaults = Object.keys(is).length ? is : null;
    const kept = STATES.filter((state) => JSON.stringify(before.retention[state]) !== JSON.stringify(after.retention[state]));
    if (kept.length) body.retention = Object.fromEntries(kept.map((state) => [state, { age: after.retention[state].age.trim() || '7d', count: number(after.retention[state].count) }]));
    if (before.rounds !== after.rounds) body.rounds = after.rounds;
    const gate = (draft: Draft) => (draft.rounds && draft.gate_queue.trim() ? { queue: draft.gate_queue.trim(), lead: Number(draft.gate_lead), ...(draft.gate_max_lead.trim() ? { max_lead: Number(draft.gate_max_lead) } : {}) } : null);
    if (JSON.stringify(gate(before)) !== JSON.stringify(gate(after))) body.gate = gate(after);
    return body;
}

const SAID: Record<string, string> = { max_concurrency: 'jobs at once', rate: 'starts', key_concurrency: 'at once for each limit key', key_rate: 'starts for each limit key', ageing: 'a level of priority after', defaults: 'defaults', retention: 'how long ended jobs stay', rounds: 'rounds', gate: 'the gate' };

function saidOf(key: string, value: unknown): string {
    if (value === null) return `${SAID[key]}: ${key === 'defaults' ? 'none' : key === 'gate' ? 'no gate' : 'no limit'}`;
    if (key === 'rounds') return value ? 'it runs in rounds' : 'it runs without rounds';
    if (key === 'rate' || key === 'key_rate') return `${SAID[key]} ${(value as Rate).count} in ${(value as Rate).per}`;
    return typeof value === 'object' ? (SAID[key] as string) : `${SAID[key]} ${value as string}`;
}

export function changing(name: string, before: Draft, after: Draft, body: Record<string, unknown>): Action {
    const flags: string[] = [];
    for (const [key, value] of Object.entries(body)) {
        if (key === 'gate') flags.push(...(value ? ['--gate', `${after.gate_queue.trim()}:${after.gate_lead}`, ...(after.gate_max_lead.trim() ? ['--max-lead', after.gate_max_lead] : [])] : ['--no-gate']));
        else if (key === 'rounds') flags.push('--rounds', value ? 'on' : 'off');
        else if (key === 'rate' || key === 'key_rate') flags.push(`--${key.replace('_', '-')}`, value ? `${(value as Rate).count}/${(value as Rate).per}` : 'none');
        else flags.push(`--${key.replace('_', '-')}`, value === null ? 'none' : typeof value === 'object' ? JSON.stringify(value) : String(value));
    }
    const gone = Object.keys(before.defaults).filter((key) => before.defaults[key] && !after.defaults[key]?.trim());
    return {
        label: 'Save the settings',
        does: `Sets for ${name}: ${Object.entries(body).map(([key, value]) => saidOf(key, value)).join(', ')}.${gone.length && body.defaults !== null ? ` Takes back the defaults first, because ${gone.join(', ')} ${gone.length === 1 ? 'goes' : 'go'}.` : ''}`,
        done: `The settings of ${name} are saved`,
        needs: 'operate',
        method: 'POST',
        path: path(['queues', name, 'settings']),
        body,
        command: ['queue', 'set', name, ...flags],
    };
}
