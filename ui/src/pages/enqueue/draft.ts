// What the form holds, and the request and the command that it makes.
import { type Action, type Job, type WholeJob } from '#kit';

export interface Draft {
    queue: string;
    payload: string;
    priority: string;
    delay: string;
    at: string;
    max_attempts: string;
    retry_backoff: string;
    retry_base_delay: string;
    retry_max_delay: string;
    attempt_timeout: string;
    stall_timeout: string;
    max_duration: string;
    expire_after: string;
    unique_key: string;
    unique_period: string;
    tags: string;
    scope: string;
    limit_key: string;
    hold_reason: string;
}

export const EMPTY: Draft = {
    queue: '', payload: '{}', priority: '', delay: '', at: '', max_attempts: '', retry_backoff: '', retry_base_delay: '', retry_max_delay: '', attempt_timeout: '', stall_timeout: '', max_duration: '', expire_after: '',
    unique_key: '', unique_period: '', tags: '', scope: '', limit_key: '', hold_reason: '',
};

/** Fields that are sent as they were written. */
const PLAIN = ['priority', 'delay', 'retry_backoff', 'retry_base_delay', 'retry_max_delay', 'attempt_timeout', 'stall_timeout', 'max_duration', 'expire_after', 'unique_key', 'unique_period', 'scope', 'limit_key', 'hold_reason'] as const;

/** `tenant=acme, note=two words`; null if a part has no `=`. */
export function tagsOf(text: string): [string, string][] | null {
    const parts = text.split(',').map((part) => part.trim()).filter(Boolean);
    const pairs = parts.map((part): [string, string] => [part.slice(0, part.indexOf('=')).trim(), part.slice(part.indexOf('=') + 1).trim()]);
    return parts.every((part) => part.indexOf('=') > 0) ? pairs : null;
}

/** What keeps the form from being sent. */
export function lacks(draft: Draft, payloadFits: boolean): string {
    if (!draft.queue.trim()) return 'Name a queue.';
    if (!payloadFits) return 'The payload is not JSON yet.';
    if (!tagsOf(draft.tags)) return 'Write tags as name=value, with commas between.';
    if (draft.max_attempts && !/^[1-9]\d*$/.test(draft.max_attempts)) return 'Attempts are a number from 1 on.';
    if (draft.delay && draft.at) return 'Either a delay or a time, not both.';
    if (draft.at && Number.isNaN(Date.parse(draft.at))) return 'This is not a time.';
    return '';
}

/** The body is text, so that the payload is sent exactly as it was written. */
export function enqueuing(draft: Draft): Action {
    const queue = draft.queue.trim();
    const payload = draft.payload.trim() || '{}';
    const set: Record<string, unknown> = { queue };
    const flags: string[] = [];
    for (const name of PLAIN) {
        const value = draft[name].trim();
        if (!value) continue;
        set[name] = value;
        flags.push(`--${name.replaceAll('_', '-')}`, value);
    }
    if (draft.at) {
        set.scheduled_at = new Date(draft.at).toISOString();
        flags.push('--scheduled-at', String(set.scheduled_at));
    }
    if (draft.max_attempts) {
        set.max_attempts = Number(draft.max_attempts);
        flags.push('--max-attempts', draft.max_attempts);
    }
    const tags = tagsOf(draft.tags) ?? [];
    if (tags.length) set.tags = Object.fromEntries(tags);
    tags.forEach(([name, value]) => flags.push('--tag', `${name}=${value}`));
    return {
        label: 'Enqueue',
        does: `Stores a job in ${queue}.`,
        done: 'Enqueued',
        needs: 'enqueue',
        method: 'POST',
        path: '/enqueue',
        body: `${JSON.stringify(set).slice(0, -1)},"payload":${payload}}`,
        command: ['enqueue', queue, payload, ...flags],
    };
}

/** What a new job takes over from an earlier one. Not its unique key: the new one would be the old one. */
export function like(job: Job | WholeJob, payload: string): Partial<Draft> {
    return {
        queue: job.queue,
        payload,
        priority: job.priority === 'normal' ? '' : job.priority,
        max_attempts: job.max_attempts === 3 ? '' : String(job.max_attempts),
        tags: Object.entries(job.tags).map(([name, value]) => `${name}=${value}`).join(', '),
        scope: job.scope ?? '',
        limit_key: job.limit_key ?? '',
        attempt_timeout: job.attempt_timeout ?? '',
        max_duration: job.max_duration ?? '',
    };
}
