// The shape of the pulse, and how one message changes what was known. Shared by the worker and the pages.
import type { Bulk, Canary, Progress, QueueRow, Live, Worker } from '../api/types';

export interface Watched {
    state: string;
    attempt: number;
    progress: Progress | null;
    live: Live | null;
    updated_at: string;
}

export interface Slots {
    total: number;
    busy: number;
    by_plugin: Record<string, number>;
    busy_elsewhere?: number;
}

/** Everything that a pulse has told so far. */
export interface Pulse {
    at: string;
    queues: Record<string, QueueRow>;
    totals: Record<string, number>;
    rates: { enqueued_per_second_5s: number; completed_per_second_5s: number; failed_attempts_per_second_5s: number };
    slots: Slots;
    canaries: Record<string, Canary>;
    workers: Worker[];
    jobs: Record<string, Watched>;
    paused_since: string | null;
    trouble: string | null;
    bulk: Bulk[];
}

/** A message: the first has every member, later ones those that changed. A map's entry that is null is gone. */
export type PulseMessage = Partial<Omit<Pulse, 'queues' | 'jobs'>> & {
    full?: boolean;
    queues?: Record<string, QueueRow | null>;
    jobs?: Record<string, Watched | null>;
};

export const empty = (): Pulse => ({
    at: '',
    queues: {},
    totals: {},
    rates: { enqueued_per_second_5s: 0, completed_per_second_5s: 0, failed_attempts_per_second_5s: 0 },
    slots: { total: 0, busy: 0, by_plugin: {} },
    canaries: {},
    workers: [],
    jobs: {},
    paused_since: null,
    trouble: null,
    bulk: [],
});

function merged<T>(known: Record<string, T>, news: Record<string, T | null> | undefined): Record<string, T> {
    if (!news) return known;
    const all = { ...known };
    for (const [key, value] of Object.entries(news)) {
        if (value === null) delete all[key];
        else all[key] = value;
    }
    return all;
}

/** What is known after a message. Members that did not change stay the same objects. */
export function apply(known: Pulse, message: PulseMessage): Pulse {
    const { full, queues, jobs, ...rest } = message;
    const base = full ? empty() : known;
    return { ...base, ...rest, queues: merged(base.queues, queues), jobs: merged(base.jobs, jobs) };
}
