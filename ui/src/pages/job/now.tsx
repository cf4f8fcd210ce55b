// The line at the top: what happens now, in words, with what comes next.
import { useEffect, useRef } from 'preact/hooks';
import { act, ActionButton, addShortcuts, count, JobLink, live, may, now, Panel, path, roughly, span, Time, type Action, type Progress, type WholeJob } from '#kit';

type Seen = ReturnType<typeof live.watched>;

export function Now({ job, seen, after }: { job: WholeJob; seen: Seen; after(): void }) {
    const state = seen?.state ?? job.state;
    // What the server told while it was being stopped: afterwards it is the proof.
    const stop = useRef<Asked | null>(null);
    if (seen?.live?.stopping_since) stop.current = { since: seen.live.stopping_since, by: seen.live.stopped_by };
    if (state === 'active') return <Running job={job} progress={seen?.progress ?? job.progress} seen={seen} />;
    const text = sentence(job, state);
    const proof = ['cancelled', 'dead', 'held'].includes(state) ? proofOf(job, stop.current) : '';
    if (!text && !proof) return null;
    return (
        <Panel class={`now is-${state}`} label="What happens now">
            <p role="status">
                {text} {proof && <span class="dim">{proof}</span>}
            </p>
            {state === 'held' && <Decision job={job} after={after} />}
        </Panel>
    );
}

interface Asked {
    since: string;
    by: string | null;
}

/** That it surely stopped: when, whether by itself, and what it had used until then. */
function proofOf(job: WholeJob, asked: Asked | null): string {
    const last = job.timeline.at(-1) as { at: string; plugin?: string; wall_ms?: number; cpu_ms?: number } | undefined;
    if (!last?.plugin || last.wall_ms === undefined) return '';
    const used = `after it had run for ${span(last.wall_ms)} and computed for ${span(last.cpu_ms ?? 0)}`;
    if (!asked) return `Its attempt has ended, ${used}; nothing of it runs.`;
    const forced = asked.by !== null && Date.parse(last.at) >= Date.parse(asked.by);
    return `Its attempt ended ${span(Date.parse(last.at) - Date.parse(asked.since))} after it was asked, ${forced ? 'by force' : 'by itself'}, ${used}; nothing of it runs.`;
}

function sentence(job: WholeJob, state: string) {
    const waits = job.waits_for;
    switch (state) {
        case 'pending': {
            const queue = live.queues.value[job.queue];
            if (queue?.paused) return `Waits: the queue ${job.queue} is paused.`;
            if (queue && !queue.served_by && !live.workers.value.some((worker) => worker.queues.includes(job.queue))) return `Waits: nobody serves the queue ${job.queue}. Upload a plugin for it, or start a worker.`;
            if (queue?.max_concurrency && queue.active >= queue.max_concurrency) return `Waits for its turn: ${queue.active} of ${queue.max_concurrency} jobs of ${job.queue} run, and ${count(queue.pending)} wait.`;
            return `Waits for its turn${queue ? ` among ${count(queue.pending)} in ${job.queue}` : ''}.`;
        }
        case 'scheduled':
            return <>Waits for its time: <Time at={job.scheduled_at} future />.</>;
        case 'retrying':
            return <>The last attempt failed. Attempt {job.attempt + 1} of {job.max_attempts} follows <Time at={job.scheduled_at} future />.</>;
        case 'blocked':
            if (!waits) return 'Waits for other jobs.';
            if (waits.reason) return `${waits.reason[0]?.toUpperCase()}${waits.reason.slice(1)}.`;
            return (
                <>
                    Waits for {count(waits.count)} other {waits.count === 1 ? 'job' : 'jobs'}: {waits.jobs.map((id, at) => <span key={id}>{at > 0 && ', '}<JobLink id={id} /></span>)}
                    {waits.count > waits.jobs.length && ' …'}
                </>
            );
        case 'held':
            return `Held until somebody decides${job.hold_reason ? `: ${job.hold_reason}` : '.'}`;
        case 'dead':
            // The whole of it stands beside, with its backtrace.
            return `Dead: ${job.last_error?.split('\n')[0] || 'it will not run again by itself.'}`;
        case 'cancelled':
            return `Cancelled${job.cancel_reason ? `: ${job.cancel_reason}` : '.'}`;
        default:
            return null;
    }
}

const decide = (job: WholeJob, word: 'approve' | 'reject'): Action => ({
    label: word === 'approve' ? 'Approve' : 'Reject',
    does: word === 'approve' ? 'It becomes pending, and runs when its queue lets it.' : 'It becomes dead, and does not run.',
    done: word === 'approve' ? 'Approved' : 'Rejected',
    needs: 'operate',
    method: 'POST',
    path: path(['jobs', job.id, word]),
    body: {},
    command: ['job', word, job.id],
});

function Decision({ job, after }: { job: WholeJob; after(): void }) {
    const operates = may('operate');
    useEffect(() => {
        if (!operates) return;
        return addShortcuts([
            { keys: 'a', does: 'approve', group: 'This job', run: () => act(decide(job, 'approve'), { after }) },
            { keys: 'd', does: 'reject', group: 'This job', run: () => act(decide(job, 'reject'), { after }) },
        ]);
    }, [job.id, operates]);
    if (!operates) return null;
    return (
        <div class="acts">
            <ActionButton action={decide(job, 'approve')} kind="main" after={after} />
            <ActionButton action={decide(job, 'reject')} kind="danger" after={after} />
        </div>
    );
}

const shareOf = (progress: Progress | null): number | null => {
    if (!progress) return null;
    if (progress.percent !== undefined) return progress.percent;
    if (progress.current !== undefined && progress.total) return (progress.current / progress.total) * 100;
    return null;
};

/** How long it will take, from how fast it went since this page was opened, and before that since the attempt began. */
function useLeft(share: number | null, startedAt: string | undefined): string {
    const first = useRef<{ at: number; share: number } | null>(null);
    if (share === null || share <= 0 || share >= 100 || !startedAt) return '';
    first.current ??= { at: Date.now(), share };
    const moved = share - first.current.share;
    const passed = Date.now() - first.current.at;
    const speed = moved > 1 && passed > 5000 ? moved / passed : share / Math.max(1, Date.now() - Date.parse(startedAt));
    return `about ${span(Math.max(1000, (100 - share) / speed))} left`;
}

function Running({ job, progress, seen }: { job: WholeJob; progress: Progress | null; seen: Seen }) {
    const share = shareOf(progress);
    const left = useLeft(share, job.started_at);
    const stopping = seen?.live?.stopping_since ?? job.cancel_requested_at;
    const says = progress?.message ?? progress?.phase ?? (share === null ? 'Running, without progress so far' : 'Running');
    const units = progress?.current !== undefined && progress.total ? `${count(progress.current)} of ${count(progress.total)} ${progress.unit ?? ''}` : '';
    return (
        <Panel class={`now is-${stopping ? 'retrying' : 'active'}`} label="What happens now">
            <div class="row wrap now-line">
                <span>
                    <b>{says}</b>
                    {progress?.phase && progress.message && <span class="dim"> · {progress.phase}</span>}
                </span>
                <span class="push dim" aria-live="off">
                    {share !== null && `${Math.floor(share)} %`}
                    {units && !says.includes(String(progress?.current)) && ` · ${units}`}
                    {left && ` · ${left}`}
                    {share === null && job.started_at && `since ${roughly(now.value - Date.parse(job.started_at))}`}
                </span>
            </div>
            {share !== null && (
                <div class="bar wide thick" role="progressbar" aria-label="Progress" aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.floor(share)}>
                    <i class="fill is-active" style={{ width: `${Math.min(100, share)}%` }} />
                </div>
            )}
            {stopping && <Stopping since={stopping} by={seen?.live?.stopped_by ?? null} why={job.cancel_reason ?? seen?.live?.stopping_reason ?? null} inside={!!job.plugin} />}
        </Panel>
    );
}

/** A stop that surely stops: the ring shows the grace that is left. */
function Stopping({ since, by, why, inside }: { since: string; by: string | null; why: string | null; inside: boolean }) {
    const left = by ? Date.parse(by) - now.value : null;
    const whole = by ? Date.parse(by) - Date.parse(since) : 1;
    const share = left === null ? 0 : Math.max(0, Math.min(1, left / Math.max(1, whole)));
    const round = 2 * Math.PI * 8;
    return (
        <p class="row stopping" role="status">
            {by && (
                <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
                    <circle cx="10" cy="10" r="8" class="ring" />
                    <circle cx="10" cy="10" r="8" class="ring left" stroke-dasharray={`${round * share} ${round}`} transform="rotate(-90 10 10)" />
                </svg>
            )}
            <span>
                Asked to stop <Time at={since} />
                {why ? `: ${why}` : ''}.{' '}
                {left === null ? (inside ? 'It is stopped by force if it does not end by itself.' : 'The worker finds out with its next heartbeat.') : left > 0 ? `Stopped by force in ${roughly(left)} if it does not end by itself.` : 'It is being stopped by force.'}
            </span>
        </p>
    );
}

