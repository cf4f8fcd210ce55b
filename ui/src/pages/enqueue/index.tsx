// Enqueue: a job by hand, with a form where the plugin describes its payload, and earlier jobs to begin from.
import { useEffect, useState } from 'preact/hooks';
import {
    AsCommands, explain, Field, firstError, get, href, JobLink, JsonEditor, Loading, live, may, PageHead, Panel, path, post, pretty, query, QueueField, run, Select, send, setQuery, StatePill, Time, useResource,
    usePaletteEntries, type Job, type Search, type WholeJob,
} from '#kit';
import { EMPTY, enqueuing, lacks, like, type Draft } from './draft';
import { hasForm, SchemaForm, starting, type Schema } from './schema';

interface Serving {
    name: string;
    queues: string[];
    active: string | null;
    versions: { version: string; manifest: { payload?: unknown } }[];
}

interface Answer {
    job_id: string;
    unique_existing: boolean;
    job: { id: string; queue: string; state: string };
    served_by: string | null;
    warnings?: string[];
}

/** A payload that is larger is for the command. */
const TEMPLATE_BYTES = 512 * 1024;
const SETTLE_MS = 300;

/** What the active version of the plugin says about its payload. */
function schemaOf(plugin: Serving | undefined): Schema | null {
    const found = plugin?.versions.find((one) => one.version === plugin.active)?.manifest.payload;
    return hasForm(found) ? found : null;
}

export default function Enqueue() {
    const [draft, setDraft] = useState<Draft>(() => ({ ...EMPTY, queue: query.value.get('queue') ?? '' }));
    const set = (change: Partial<Draft>) => setDraft((before) => ({ ...before, ...change }));
    const [settled, settle] = useState(draft.queue);
    useEffect(() => {
        const timer = setTimeout(() => {
            settle(draft.queue.trim());
            setQuery({ queue: draft.queue.trim() });
        }, SETTLE_MS);
        return () => clearTimeout(timer);
    }, [draft.queue]);
    const reads = may('read');
    const plugins = useResource(reads ? 'plugins' : null, (signal) => get<{ plugins: Serving[] }>('/plugins', signal));
    const plugin = plugins.data?.plugins.find((one) => one.queues.includes(settled));
    const schema = schemaOf(plugin);
    const [asJson, setAsJson] = useState(false);
    // A form that is first shown begins with what the schema suggests, unless somebody has written something.
    useEffect(() => {
        if (schema && draft.payload.trim() === '{}') set({ payload: starting(schema) });
    }, [plugin?.name, settled, schema !== null]);

    const [busy, setBusy] = useState(false);
    const [wrong, setWrong] = useState('');
    const [sent, setSent] = useState<Answer[]>([]);
    const missing = lacks(draft, !draft.payload.trim() || firstError(draft.payload) === null);
    const action = enqueuing(draft);
    const submit = async (event?: Event) => {
        event?.preventDefault();
        if (missing || busy) return;
        setBusy(true);
        setWrong('');
        try {
            const answer = await run<Answer>(action);
            setSent((before) => [answer, ...before].slice(0, 8));
        } catch (error) {
            setWrong(explain(error));
        }
        setBusy(false);
    };
    const from = query.value.get('from');
    const take = async (job: Job | WholeJob) => {
        try {
            if ((job.payload_preview?.size_bytes ?? job.payload_size ?? 0) > TEMPLATE_BYTES) throw new Error('Its payload is too large for a page: download it, and use windlass enqueue QUEUE @FILE.');
            const response = await send('GET', path(['jobs', job.id, 'payload']));
            const text = response.ok ? await response.text() : '{}';
            set(like(job, firstError(text) ? text : pretty(text)));
            setWrong('');
        } catch (error) {
            setWrong(explain(error));
        }
    };
    useEffect(() => {
        if (from) get<WholeJob>(path(['jobs', from], { payload: 'preview' })).then(take, (error) => setWrong(explain(error)));
    }, [from]);
    usePaletteEntries([{ text: 'Enqueue this job', kind: 'action', run: () => void submit() }], [draft]);
    return (
        <>
            <PageHead title="Enqueue" about="a job by hand" />
            <div class="split">
                <form
                    id="enqueue"
                    onSubmit={submit}
                    onKeyDown={(event) => {
                        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void submit(event);
                    }}
                >
                    <Panel label="The job">
                        <div class="stack">
                            <div class="pair">
                                <QueueField label="Queue" value={draft.queue} set={(queue) => set({ queue })} required autofocus placeholder="emails.send" hint={<ServedBy queue={settled} plugin={plugin?.name} />} />
                                <Select label="Priority" value={draft.priority} set={(priority) => set({ priority })} of={{ '': 'normal', critical: 'critical', high: 'high', low: 'low' }} />
                            </div>
                            {schema && (
                                <div class="chips" role="group" aria-label="How the payload is shown">
                                    <button type="button" class="chip" aria-pressed={!asJson} onClick={() => setAsJson(false)}>
                                        Form
                                    </button>
                                    <button type="button" class="chip" aria-pressed={asJson} onClick={() => setAsJson(true)}>
                                        JSON
                                    </button>
                                </div>
                            )}
                            {schema && !asJson ? (
                                <SchemaForm schema={schema} text={draft.payload} set={(payload) => set({ payload })} />
                            ) : (
                                <JsonEditor label="Payload" value={draft.payload} set={(payload) => set({ payload })} rows={14} empty="{}" />
                            )}
                            <Options draft={draft} set={set} />
                            {wrong && (
                                <p class="wrong-line keep-lines" role="alert">
                                    {wrong}
                                </p>
                            )}
                            <div class="row wrap">
                                <button type="submit" class="main" disabled={busy || missing !== ''}>
                                    {busy ? 'Working…' : 'Enqueue'}
                                </button>
                                <span class="dim">{missing || 'Ctrl Enter does it, too.'}</span>
                            </div>
                        </div>
                    </Panel>
                    {!missing && <AsCommands action={action} />}
                </form>
                <aside>
                    <Sent answers={sent} />
                    {reads && settled && <Templates queue={settled} take={take} />}
                </aside>
            </div>
        </>
    );
}

function ServedBy({ queue, plugin }: { queue: string; plugin?: string }) {
    if (!queue) return null;
    if (plugin) {
        return (
            <>
                served by the plugin <a href={href(`/plugins/${encodeURIComponent(plugin)}`)}>{plugin}</a>
            </>
        );
    }
    const workers = live.workers.value.filter((worker) => worker.queues.includes(queue)).length;
    const row = live.queues.value[queue];
    if (workers) return <>served by {workers === 1 ? 'a worker' : `${workers} workers`}</>;
    return live.known.value ? <>{row ? 'nobody serves it now: its jobs wait' : 'a new queue: it begins with this job, which waits until somebody serves it'}</> : null;
}

function Options({ draft, set }: { draft: Draft; set(change: Partial<Draft>): void }) {
    const field = (name: keyof Draft, label: string, placeholder: string) => <Field label={label} value={draft[name]} set={(text) => set({ [name]: text })} placeholder={placeholder} spellcheck={false} />;
    return (
        <>
            <div class="pair">
                {field('delay', 'Starts after', 'at once; 5m, 2h')}
                {field('max_attempts', 'Attempts', '3')}
                {field('tags', 'Tags', 'tenant=acme, kind=test')}
                {field('unique_key', 'Unique key', 'none')}
            </div>
            <details>
                <summary>Further options</summary>
                <div class="pair further">
                    <Field label="Not before (your time)" type="datetime-local" value={draft.at} set={(at) => set({ at })} />
                    {field('expire_after', 'Dead if not completed in', 'never')}
                    {field('attempt_timeout', 'Time of an attempt', 'an hour in a plugin')}
                    {field('stall_timeout', 'Time without a sign of life', 'none')}
                    {field('max_duration', 'Time of all attempts', 'none')}
                    {field('unique_period', 'The key is kept for', '1h')}
                    <Select label="Delay between attempts" value={draft.retry_backoff} set={(retry_backoff) => set({ retry_backoff })} of={{ '': 'as the queue says', exponential: 'exponential', quadratic: 'quadratic', linear: 'linear', fixed: 'fixed', none: 'none' }} />
                    {field('retry_base_delay', 'First delay', '5s')}
                    {field('retry_max_delay', 'Longest delay', '10m')}
                    {field('limit_key', 'Counts against the limits of', 'a tenant')}
                    {field('scope', 'About', 'order:77')}
                    {field('hold_reason', 'Held, because', 'not held')}
                </div>
            </details>
        </>
    );
}

const Sent = ({ answers }: { answers: Answer[] }) => (
    <div role="status">
        {answers.length > 0 && (
            <Panel title="Enqueued from here">
                <ul class="list">
                    {answers.map((answer) => (
                        <li key={answer.job_id}>
                            <JobLink id={answer.job_id} />
                            <StatePill of={answer.job.state} />
                            <span class="dim">{answer.unique_existing ? 'no new job: this one has the unique key' : answer.job.queue}</span>
                            {answer.warnings?.map((warning) => (
                                <span key={warning} class="warn-line whole">
                                    {warning}
                                </span>
                            ))}
                        </li>
                    ))}
                </ul>
            </Panel>
        )}
    </div>
);

/** Earlier jobs of the queue: what others sent is the best example. */
function Templates({ queue, take }: { queue: string; take(job: Job): void }) {
    const found = useResource(`templates ${queue}`, (signal) => post<Search>('/jobs/search', { queue, payload: 'preview', preview_chars: 120, sort: 'created_at', order: 'desc', limit: 8 }, signal));
    if (!found.data && !found.error) return <Loading rows={3} />;
    const jobs = found.data?.jobs ?? [];
    return (
        <Panel title="Begin with an earlier job" aside={jobs.length ? undefined : 'none in this queue'}>
            {jobs.length === 0 && <p class="dim">The payload and the options of earlier jobs can be taken over from here.</p>}
            <ul class="list templates">
                {jobs.map((job) => (
                    <li key={job.id}>
                        <button type="button" class="quiet" title="Take over its payload and options" onClick={() => take(job)}>
                            <span class="mono clip">{job.payload_preview?.text ?? ''}</span>
                        </button>
                        <span class="dimmer">
                            <Time at={job.created_at} />
                        </span>
                    </li>
                ))}
            </ul>
        </Panel>
    );
}
