// A schedule, and what can be done with it.
import { members, path, root, send, refusal, type Action } from '#kit';

export interface Skipped {
    first: string;
    last: string;
    count: number;
    reason: string;
    message: string;
    job_id?: string;
}

export interface Schedule {
    id: string;
    name: string;
    queue: string;
    cron: string;
    /** The expression as a sentence. */
    words?: string;
    timezone: string;
    payload: unknown;
    tags: Record<string, string>;
    unique_key?: string;
    catch_up: 'skip' | 'once' | 'all';
    catch_up_most?: number;
    overlap: 'allow' | 'skip' | 'cancel';
    paused: boolean;
    priority?: string;
    max_attempts?: number;
    retry_backoff?: string;
    retry_base_delay?: string;
    retry_max_delay?: string;
    created_at: string;
    updated_at: string;
    last_run: string | null;
    last_job_id: string | null;
    next_run: string | null;
    skipped_total: number;
    skipped_runs: Skipped[];
}

/** With its payload as the text that it is: a large number would not survive being read. */
export async function readSchedule(name: string, signal?: AbortSignal): Promise<{ schedule: Schedule; payload: string }> {
    const response = await send('GET', path(['schedules', name]), { signal });
    if (!response.ok) throw await refusal(response);
    const text = await response.text();
    const payload = members(text, root(text), Infinity).nodes.find((node) => node.name === 'payload');
    return { schedule: JSON.parse(text) as Schedule, payload: payload ? text.slice(payload.start, payload.end) : '{}' };
}

export function switching(schedule: Schedule): Action {
    const word = schedule.paused ? 'resume' : 'pause';
    return {
        label: schedule.paused ? 'Resume' : 'Pause',
        does: schedule.paused ? `${schedule.name} enqueues jobs again at its next time. The runs that were due meanwhile stay skipped.` : `${schedule.name} enqueues no more jobs until it is resumed; runs that are due meanwhile are skipped.`,
        done: schedule.paused ? `${schedule.name} is resumed` : `${schedule.name} is paused`,
        needs: 'operate',
        method: 'POST',
        path: path(['schedules', schedule.name, word]),
        command: ['schedule', word, schedule.name],
    };
}

export const running = (schedule: Schedule): Action => ({
    label: 'Run now',
    does: `Enqueues a job to ${schedule.queue} now, besides its usual times.`,
    done: `${schedule.name} was run`,
    needs: 'operate',
    method: 'POST',
    path: path(['schedules', schedule.name, 'run']),
    command: ['schedule', 'run', schedule.name],
});

export const removing = (schedule: Schedule): Action => ({
    label: 'Delete',
    does: `Deletes the schedule ${schedule.name}. The jobs that it has enqueued stay.`,
    done: `${schedule.name} is deleted`,
    needs: 'operate',
    method: 'DELETE',
    path: path(['schedules', schedule.name]),
    command: ['schedule', 'remove', schedule.name],
    final: true,
});

/** What the form holds. */
export interface Draft {
    name: string;
    queue: string;
    cron: string;
    timezone: string;
    payload: string;
    overlap: Schedule['overlap'];
    catch_up: Schedule['catch_up'];
    catch_up_most: string;
    paused: boolean;
    /** Of each job; empty: as the queue has it. */
    more: Record<More, string>;
}

/** What may be said of the jobs, each a field of the API and a flag of the command. */
export const MORE = ['priority', 'max_attempts', 'retry_backoff', 'retry_base_delay', 'retry_max_delay', 'unique_key', 'tags'] as const;
export type More = (typeof MORE)[number];

const moreOf = (schedule?: Schedule) =>
    Object.fromEntries(
        MORE.map((name) => [name, name === 'tags' ? Object.entries(schedule?.tags ?? {}).map(([tag, value]) => `${tag}=${value}`).join(', ') : String(schedule?.[name] ?? '')]),
    ) as Draft['more'];

export const tagsIn = (text: string) =>
    text
        .split(',')
        .map((part) => part.trim())
        .filter(Boolean)
        .map((part) => [part.split('=')[0] as string, part.slice(part.indexOf('=') + 1)] as const);

export const draftOf = (from?: { schedule: Schedule; payload: string }, timezone = 'UTC'): Draft => ({
    name: from?.schedule.name ?? '',
    queue: from?.schedule.queue ?? '',
    cron: from?.schedule.cron ?? '30 2 * * 1-5',
    timezone: from?.schedule.timezone ?? timezone,
    payload: from?.payload ?? '{}',
    overlap: from?.schedule.overlap ?? 'allow',
    catch_up: from?.schedule.catch_up ?? 'once',
    catch_up_most: String(from?.schedule.catch_up_most ?? ''),
    paused: from?.schedule.paused ?? false,
    more: moreOf(from?.schedule),
});

/** Creates the schedule, or changes it if it exists. The body is text, so that the payload stays exactly as it was written. */
export function saving(draft: Draft, of?: Schedule): Action {
    const { name, payload, catch_up_most, more, ...rest } = draft;
    const changes = of !== undefined;
    const before = moreOf(of);
    const said: Record<string, unknown> = {};
    const flags: string[] = [];
    // What is left out stays as it is.
    for (const field of MORE) {
        const text = more[field].trim();
        if (text === before[field]) continue;
        if (field === 'tags') {
            said.tags = Object.fromEntries(tagsIn(text));
            flags.push(...tagsIn(text).flatMap(([tag, value]) => ['--tag', `${tag}=${value}`]));
        } else if (text) {
            said[field] = field === 'max_attempts' ? Number(text) : text;
            flags.push(`--${field.replaceAll('_', '-')}`, text);
        }
    }
    const most = draft.catch_up === 'all' && catch_up_most ? { catch_up_most: Number(catch_up_most) } : {};
    const known = JSON.stringify({ ...(changes ? {} : { name }), ...rest, ...most, ...said });
    const command = ['schedule', 'add', name, draft.cron, draft.queue, payload, '--timezone', draft.timezone, '--overlap', draft.overlap, '--catch-up', draft.catch_up];
    if ('catch_up_most' in most) command.push('--catch-up-most', catch_up_most);
    if (draft.paused) command.push('--paused');
    if (changes) command.push('--replace');
    command.push(...flags);
    return {
        label: changes ? 'Save' : 'Create',
        does: changes ? `Changes the schedule ${name}.` : `Creates the schedule ${name}, which enqueues jobs to ${draft.queue}.`,
        done: changes ? `${name} is saved` : `${name} is created`,
        needs: 'operate',
        method: changes ? 'PUT' : 'POST',
        path: changes ? path(['schedules', name]) : '/schedules',
        body: `${known.slice(0, -1)},"payload":${payload.trim() || '{}'}}`,
        command,
    };
}
