// The form of a schedule: when, with the next times before it is saved, and what it enqueues.
import { useEffect, useState } from 'preact/hooks';
import { act, AsCommands, dateTime, Dialog, Field, isJson, live, may, post, Select, useResource } from '#kit';
import { DAYS, FIRST, fromCron, toCron, type Choice, type Every } from './cron';
import { draftOf, saving, tagsIn, type Draft, type More, type Schedule } from './schedule';

const KINDS: Record<Every, string> = {
    minutes: 'Every few minutes',
    hour: 'Every hour',
    day: 'Every day',
    week: 'On days of the week',
    month: 'Every month',
    other: 'A cron expression',
};

const zones = () => ['UTC', ...Intl.supportedValuesOf('timeZone')];

export function Edit({ of, close, after }: { of?: { schedule: Schedule; payload: string }; close(): void; after(name: string): void }) {
    const changes = of !== undefined;
    const [draft, setDraft] = useState<Draft>(() => draftOf(of, Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'));
    const set = (change: Partial<Draft>) => setDraft((before) => ({ ...before, ...change }));
    const payloadFits = isJson(draft.payload.trim() || '{}');
    const action = saving(draft, of?.schedule);
    const more = (name: More) => ({ value: draft.more[name], set: (value: string) => set({ more: { ...draft.more, [name]: value } }) });
    const tagsFit = tagsIn(draft.more.tags).every(([tag]) => tag) && tagsIn(draft.more.tags).length === draft.more.tags.split('=').length - 1;
    const ready = draft.name.trim() !== '' && draft.queue.trim() !== '' && draft.cron.trim() !== '' && payloadFits && tagsFit;
    const save = (event: Event) => {
        event.preventDefault();
        act(action, {
            after() {
                close();
                after(draft.name);
            },
        });
    };
    return (
        <Dialog
            title={changes ? `Edit ${draft.name}` : 'New schedule'}
            onClose={close}
            wide
            foot={
                <>
                    <button type="button" onClick={close}>
                        Back
                    </button>
                    {may(action.needs) && (
                        <button type="submit" form="schedule" class="main" disabled={!ready}>
                            {action.label}
                        </button>
                    )}
                </>
            }
        >
            <form id="schedule" class="stack" onSubmit={save}>
                <div class="halves fields">
                    <label class="field">
                        Name
                        <input required value={draft.name} disabled={changes} placeholder="nightly-report" onInput={(event) => set({ name: event.currentTarget.value })} />
                    </label>
                    <label class="field">
                        Queue
                        <input required list="schedule-queues" value={draft.queue} placeholder="reports" onInput={(event) => set({ queue: event.currentTarget.value })} />
                        <datalist id="schedule-queues">
                            {Object.keys(live.queues.value).map((name) => (
                                <option key={name} value={name} />
                            ))}
                        </datalist>
                    </label>
                </div>
                <When draft={draft} set={set} />
                <label class="field">
                    Payload of each job (JSON)
                    <textarea rows={4} spellcheck={false} aria-invalid={!payloadFits} value={draft.payload} onInput={(event) => set({ payload: event.currentTarget.value })} />
                    {!payloadFits && (
                        <span class="wrong-line" role="alert">
                            This is not JSON yet.
                        </span>
                    )}
                </label>
                <div class="halves fields">
                    <label class="field">
                        When its last job has not ended
                        <select value={draft.overlap} onChange={(event) => set({ overlap: event.currentTarget.value as Draft['overlap'] })}>
                            <option value="allow">run all the same</option>
                            <option value="skip">skip the run</option>
                            <option value="cancel">cancel that job first</option>
                        </select>
                    </label>
                    <label class="field">
                        Times that passed while the server was down
                        <select value={draft.catch_up} onChange={(event) => set({ catch_up: event.currentTarget.value as Draft['catch_up'] })}>
                            <option value="once">run once for all of them</option>
                            <option value="skip">skip them</option>
                            <option value="all">run for each</option>
                        </select>
                    </label>
                    {draft.catch_up === 'all' && (
                        <label class="field">
                            At most so many, the latest
                            <input type="number" min={1} placeholder="1000" value={draft.catch_up_most} onInput={(event) => set({ catch_up_most: event.currentTarget.value })} />
                        </label>
                    )}
                </div>
                <details class="more-fields">
                    <summary>Its jobs: priority, attempts, unique key, tags</summary>
                    <div class="pair">
                        <Select label="Priority" {...more('priority')} of={{ '': 'as the queue has it', critical: 'critical', high: 'high', normal: 'normal', low: 'low' }} />
                        <Field label="Attempts, including the first" type="number" min={1} placeholder="as the queue has it" {...more('max_attempts')} />
                        <Select label="Delay between attempts" {...more('retry_backoff')} of={{ '': 'as the queue has it', none: 'none', fixed: 'the same', linear: 'longer each time', exponential: 'twice as long each time' }} />
                        <Field label="First delay" placeholder="5s" {...more('retry_base_delay')} />
                        <Field label="Longest delay" placeholder="10m" {...more('retry_max_delay')} />
                        <Field label="Unique key" placeholder="none" spellcheck={false} {...more('unique_key')} hint="A run is skipped while a job with this key waits or runs." />
                        <Field label="Tags" placeholder="tenant=acme, kind=report" spellcheck={false} aria-invalid={!tagsFit} {...more('tags')} hint={tagsFit ? undefined : 'Write tags as name=value, separated by commas.'} />
                    </div>
                    {changes && <p class="dim">Except for the tags, what is left empty stays as it is.</p>}
                </details>
                <label class="check">
                    <input type="checkbox" checked={draft.paused} onChange={(event) => set({ paused: event.currentTarget.checked })} />
                    Paused: enqueues nothing until it is resumed
                </label>
            </form>
            <AsCommands action={action} />
        </Dialog>
    );
}

function When({ draft, set }: { draft: Draft; set(change: Partial<Draft>): void }) {
    const [choice, setChoice] = useState<Choice>(() => fromCron(draft.cron));
    const choose = (next: Choice) => {
        setChoice(next);
        const cron = toCron(next);
        if (cron) set({ cron });
    };
    return (
        <fieldset class="when">
            <legend>When</legend>
            <div class="row wrap">
                <select aria-label="How often" value={choice.every} onChange={(event) => choose(FIRST[event.currentTarget.value as Every])}>
                    {Object.entries(KINDS).map(([key, title]) => (
                        <option key={key} value={key}>
                            {title}
                        </option>
                    ))}
                </select>
                <Details choice={choice} choose={choose} />
                <label class="field-row">
                    cron
                    <input
                        class="mono cron"
                        required
                        value={draft.cron}
                        onInput={(event) => {
                            set({ cron: event.currentTarget.value });
                            setChoice(fromCron(event.currentTarget.value));
                        }}
                    />
                </label>
                <label class="field-row">
                    in
                    <input list="schedule-zones" value={draft.timezone} aria-label="Time zone" onInput={(event) => set({ timezone: event.currentTarget.value })} />
                    <datalist id="schedule-zones">
                        {zones().map((zone) => (
                            <option key={zone} value={zone} />
                        ))}
                    </datalist>
                </label>
            </div>
            <Preview cron={draft.cron} timezone={draft.timezone} />
        </fieldset>
    );
}

function Details({ choice, choose }: { choice: Choice; choose(next: Choice): void }) {
    const number = (label: string, value: number, least: number, most: number, use: (n: number) => void) => (
        <input
            type="number"
            aria-label={label}
            min={least}
            max={most}
            value={value}
            onInput={(event) => {
                const n = Number(event.currentTarget.value);
                if (Number.isInteger(n) && n >= least && n <= most) use(n);
            }}
        />
    );
    const clock = (at: string, use: (at: string) => void) => <input type="time" aria-label="Time of day" value={at} onInput={(event) => event.currentTarget.value && use(event.currentTarget.value)} />;
    switch (choice.every) {
        case 'minutes':
            return (
                <span class="row">
                    {number('Minutes between two runs', choice.n, 1, 59, (n) => choose({ ...choice, n }))} minutes
                </span>
            );
        case 'hour':
            return <span class="row">at minute {number('Minute of the hour', choice.minute, 0, 59, (minute) => choose({ ...choice, minute }))}</span>;
        case 'day':
            return <span class="row">at {clock(choice.at, (at) => choose({ ...choice, at }))}</span>;
        case 'week':
            return (
                <span class="row wrap">
                    <span class="chips" role="group" aria-label="Days">
                        {DAYS.map((_, at) => (at + 1) % 7).map((day) => (
                            <button
                                key={day}
                                type="button"
                                class="chip"
                                aria-label={DAYS[day]}
                                aria-pressed={choice.days.includes(day)}
                                onClick={() => choose({ ...choice, days: choice.days.includes(day) ? choice.days.filter((one) => one !== day) : [...choice.days, day] })}
                            >
                                {DAYS[day]?.slice(0, 2)}
                            </button>
                        ))}
                    </span>
                    at {clock(choice.at, (at) => choose({ ...choice, at }))}
                </span>
            );
        case 'month':
            return (
                <span class="row">
                    on day {number('Day of the month', choice.day, 1, 31, (day) => choose({ ...choice, day }))} at {clock(choice.at, (at) => choose({ ...choice, at }))}
                </span>
            );
        case 'other':
            return null;
    }
}

interface Previewed {
    words: string;
    next: string[];
}

const TYPING_MS = 250;

/** What the expression means, and its next times, as the server reckons them: the console has no rules of its own. */
function Preview({ cron, timezone }: { cron: string; timezone: string }) {
    const [asked, ask] = useState({ cron, timezone });
    useEffect(() => {
        const timer = setTimeout(() => ask({ cron, timezone }), TYPING_MS);
        return () => clearTimeout(timer);
    }, [cron, timezone]);
    const found = useResource(`cron ${asked.timezone} ${asked.cron}`, (signal) => post<Previewed>('/schedules/preview', { cron: asked.cron, timezone: asked.timezone || 'UTC', count: 5 }, signal), { keep: true });
    return (
        <div class="when-next" role="status">
            {found.error ? (
                <p class="wrong-line">{found.error.message}</p>
            ) : found.data ? (
                <>
                    <p class="strong">Runs {found.data.words}</p>
                    <Times at={found.data.next} timezone={asked.timezone} />
                </>
            ) : (
                <p class="dim">…</p>
            )}
        </div>
    );
}

/** Times in the zone that they were meant in: `Fri, 20 Nov 2026, 02:30`. */
export function Times({ at, timezone }: { at: string[]; timezone: string }) {
    return (
        <ol class="times">
            {at.map((one) => (
                <li key={one}>
                    <time dateTime={one} title={dateTime(new Date(one), true, false)}>
                        {inZone(one, timezone)}
                    </time>
                </li>
            ))}
        </ol>
    );
}

export function inZone(at: string, timezone: string): string {
    const shape: Intl.DateTimeFormatOptions = { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZoneName: 'short' };
    try {
        return new Intl.DateTimeFormat('en-GB', { ...shape, timeZone: timezone }).format(new Date(at));
    } catch {
        return dateTime(new Date(at), true, false);
    }
}
