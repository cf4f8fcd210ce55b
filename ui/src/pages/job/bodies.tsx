// Log, payload, checkpoint, result, timeline and tree, one at a time. A large body is shown by its beginning until somebody asks for all.
import { useState } from 'preact/hooks';
import {
    bytes, complain, count, Download, ENDED, get, href, JobLink, JsonText, Loading, Panel, path, PlainText, plural, query, send, StatePill, Tabs, Time, useResource,
    type Job, type Preview, type Step, type WholeJob,
} from '#kit';
import { Log } from './log';

/** Larger ones are for a file, not for a page. */
const LOAD_BYTES = 32 * 1024 * 1024;

export function Bodies({ job, state }: { job: WholeJob; state: string }) {
    const ended = (ENDED as string[]).includes(state);
    const children = job.children ? Object.values(job.children).reduce((all, n) => Math.max(all, n), 0) : 0;
    const tabs = [
        { key: 'log', title: 'Log' },
        { key: 'payload', title: 'Payload' },
        ...(job.checkpoint_preview ? [{ key: 'checkpoint', title: 'Checkpoint' }] : []),
        ...(job.result_preview ? [{ key: 'result', title: 'Result' }] : []),
        { key: 'timeline', title: 'Timeline' },
        ...(children || job.parent_id || job.depends_on?.length || job.chain_id || job.batch_id ? [{ key: 'related', title: 'Related' }] : []),
    ];
    // Only handlers in the sandbox have a log here; what a worker does shows in its payload and progress.
    const first = job.result_preview && ended ? 'result' : job.plugin ? 'log' : 'payload';
    const asked = query.value.get('tab') ?? first;
    const tab = tabs.some((one) => one.key === asked) ? asked : 'log';
    return (
        <Panel label="Parts of the job" flush>
            <Tabs label="Parts of the job" tabs={tabs} current={tab} href={(key) => href(`/jobs/${job.id}`, { tab: key })} />
            <div class={tab === 'log' ? '' : 'tab-body'}>
                {tab === 'log' && <Log job={job} ended={ended} />}
                {tab === 'payload' && <Body job={job} name="payload" preview={job.payload_preview ?? null} />}
                {tab === 'checkpoint' && <Body job={job} name="checkpoint" preview={job.checkpoint_preview ?? null} />}
                {tab === 'result' && <Body job={job} name="result" preview={job.result_preview ?? null} />}
                {tab === 'timeline' && <Timeline job={job} />}
                {tab === 'related' && <Related job={job} />}
            </div>
        </Panel>
    );
}

function Body({ job, name, preview }: { job: WholeJob; name: 'payload' | 'checkpoint' | 'result'; preview: Preview | null }) {
    const [whole, setWhole] = useState<{ of: string; text: string }>();
    const [busy, setBusy] = useState(false);
    if (!preview) return <p class="dim">There is no {name}.</p>;
    // What was loaded stays while the job has the same body.
    const of = `${name} ${preview.size_bytes} ${preview.text.slice(0, 200)}`;
    const load = async () => {
        setBusy(true);
        try {
            const response = await send('GET', path(['jobs', job.id, name]));
            if (!response.ok) throw new Error(((await response.json()) as { error: string }).error);
            setWhole({ of, text: await response.text() });
        } catch (error) {
            complain(error);
        }
        setBusy(false);
    };
    const text = whole?.of === of ? whole.text : preview.text;
    const partial = preview.truncated && whole?.of !== of;
    const canLoad = name !== 'checkpoint';
    return (
        <>
            <div class="row wrap body-tools">
                <span class="dim">
                    {bytes(preview.size_bytes)}
                    {partial && `, of which the first ${count(preview.text.length)} characters are shown`}
                    {preview.encoding === 'base64' && ', not text: shown as base64'}
                    {preview.encoding === 'encrypted' && ', encrypted because it contains a secret'}
                </span>
                {partial && canLoad && preview.encoding === 'text' && preview.size_bytes <= LOAD_BYTES && (
                    <button type="button" class="small" disabled={busy} onClick={load}>
                        {busy ? 'Loading…' : 'Load all of it'}
                    </button>
                )}
                {canLoad && <Download from={path(['jobs', job.id, name])} name={`${job.id}-${name}`} small />}
            </div>
            {partial || preview.encoding !== 'text' ? <PlainText text={text} label={name} /> : <JsonText text={text} label={name} />}
        </>
    );
}

function Timeline({ job }: { job: WholeJob }) {
    const steps = job.timeline as (Step & { state: string; attempt: number; reason: string })[];
    return (
        <ol class="timeline">
            {!!job.timeline_dropped && <li class="dim">{count(job.timeline_dropped)} steps in between are no longer stored.</li>}
            {steps.map((step, at) => (
                <li key={at}>
                    <Time at={step.at} millis />
                    <StatePill of={step.state} />
                    <span>
                        {step.reason}
                        {step.attempt > 0 && <span class="dimmer"> · attempt {step.attempt}</span>}
                    </span>
                </li>
            ))}
        </ol>
    );
}

interface Children {
    children?: Job[];
    jobs?: Job[];
}

function Related({ job }: { job: WholeJob }) {
    const children = useResource(job.children ? `children ${job.id}` : null, (signal) => get<Children>(path(['jobs', job.id, 'children'], { limit: 50 }), signal), { everyMs: 3000 });
    const list = children.data?.children ?? children.data?.jobs ?? [];
    const root = job.batch_id ?? job.chain_id ?? job.parent_id ?? job.id;
    return (
        <div class="stack">
            <dl class="facts">
                {job.parent_id && (
                    <>
                        <dt>Parent</dt>
                        <dd>
                            <JobLink id={job.parent_id} whole />
                        </dd>
                    </>
                )}
                {job.chain_id && (
                    <>
                        <dt>Chain</dt>
                        <dd>
                            <a href={href('/jobs', { q: `chain:${job.chain_id}` })}>step {(job.chain_step ?? 0) + 1} of the chain</a>
                        </dd>
                    </>
                )}
                {job.batch_id && (
                    <>
                        <dt>Batch</dt>
                        <dd>
                            <a href={href('/jobs', { q: `batch:${job.batch_id}` })}>{job.batch_id}</a>
                        </dd>
                    </>
                )}
                {!!job.depends_on?.length && (
                    <>
                        <dt>Depends on</dt>
                        <dd>
                            {job.depends_on.map((id, at) => (
                                <span key={id}>
                                    {at > 0 && ', '}
                                    <JobLink id={id} />
                                </span>
                            ))}
                        </dd>
                    </>
                )}
            </dl>
            {job.children && (
                <div>
                    <h3>
                        {Object.entries(job.children)
                            .filter(([, n]) => n > 0)
                            .map(([word, n]) => `${count(n)} ${word}`)
                            .join(', ')}{' '}
                        children
                    </h3>
                    {children.loading && <Loading />}
                    <ul class="list">
                        {list.map((child) => (
                            <li key={child.id}>
                                <span class="row">
                                    <JobLink id={child.id} /> <span class="dim clip">{child.queue}</span>
                                </span>
                                <StatePill of={child.state} />
                            </li>
                        ))}
                    </ul>
                    {list.length >= 50 && <a href={href('/jobs', { q: `parent:${job.id}` })}>all {plural(list.length, 'child', 'children')} and more</a>}
                </div>
            )}
            <p>
                <a href={href(`/flows/${root}`)}>The graph of the whole flow</a>
            </p>
        </div>
    );
}
