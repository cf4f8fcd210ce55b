// A job: what it does now, how far it is, what it cost, why it failed, and what can be done about it.
import { useEffect } from 'preact/hooks';
import { ApiError, Copy, Empty, Failed, get, href, live, Loading, PageHead, path, StatePill, useResource, watchJob, type Attempt, type WholeJob } from '#kit';
import { JobActions } from './actions';
import { Attempts } from './attempts';
import { Bodies } from './bodies';
import { Errors, Facts, Sandbox } from './facts';
import { Now } from './now';

export interface AttemptList {
    total: number;
    before: number;
    attempts: Attempt[];
}

/** Larger than what nearly all jobs have, and small enough to be sent with each change. */
const PREVIEW_CHARS = 8192;

export default function JobPage({ id = '' }: { id?: string }) {
    useEffect(() => watchJob(id), [id]);
    // The pulse says when the job changes; progress and what it uses come with it, the rest is read again.
    const seen = live.watched(id);
    const turn = seen ? `${seen.state} ${seen.attempt}` : '';
    const job = useResource(`job ${id}`, (signal) => get<WholeJob>(path(['jobs', id], { payload: 'preview', preview_chars: PREVIEW_CHARS }), signal), { everyMs: 2000 });
    const attempts = useResource(`attempts ${id} ${turn}`, (signal) => get<AttemptList>(path(['jobs', id, 'attempts']), signal), { keep: true });
    useEffect(() => {
        if (turn) job.reload();
    }, [turn]);

    const record = job.data;
    if (!record) {
        if (job.error instanceof ApiError && job.error.status === 404) return <Gone id={id} />;
        return job.error ? <Failed error={job.error} retry={job.reload} /> : <Loading rows={8} />;
    }
    const state = seen?.state ?? record.state;
    const reload = () => {
        job.reload();
        attempts.reload();
    };
    return (
        <>
            <PageHead
                crumbs={[
                    { text: 'Queues', href: href('/queues') },
                    { text: record.queue, href: href(`/queues/${encodeURIComponent(record.queue)}`) },
                ]}
                title={<span class="mono job-id">{record.id}</span>}
                about={
                    <span class="row">
                        <Copy text={record.id} label="Copy the id" />
                        <span role="status">
                            <StatePill of={state}>{wordFor(state, record, seen?.attempt)}</StatePill>
                        </span>
                    </span>
                }
                actions={<JobActions job={record} state={state} after={reload} />}
            />
            <Now job={record} seen={seen} after={reload} />
            <div class="split">
                <div>
                    <Attempts list={attempts.data} error={attempts.error} />
                    <Bodies job={record} state={state} />
                </div>
                <aside>
                    <Sandbox live={seen?.live ?? null} job={record} />
                    <Errors job={record} attempts={attempts.data?.attempts ?? []} after={reload} />
                    <Facts job={record} />
                </aside>
            </div>
        </>
    );
}

function wordFor(state: string, job: WholeJob, attempt = job.attempt): string {
    if (state === 'active') return job.cancel_requested_at ? 'stopping' : `active, attempt ${attempt} of ${job.max_attempts}`;
    if (state === 'retrying') return `retrying, ${job.failures} of ${job.max_attempts} attempts failed`;
    if (state === 'dead' || state === 'completed') return `${state} after ${attempt === 1 ? 'one attempt' : `${attempt} attempts`}`;
    return state;
}

const Gone = ({ id }: { id: string }) => (
    <>
        <PageHead title="No such job" />
        <Empty title={`There is no job ${id}`}>
            It may have been deleted, or removed because it ended long ago, or it belongs to another namespace. <a href={href('/jobs')}>Search jobs</a>
        </Empty>
    </>
);
