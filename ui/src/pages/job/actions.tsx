// What can be done with a job in its state. Each is described once, and shown, sent and copied from that.
import { useEffect, useState } from 'preact/hooks';
import {
    act, ActionButton, addShortcuts, ENDED, Field, FormDialog, go, href, may, path, QueueField, Select, show, usePaletteEntries, type Action, type WholeJob,
} from '#kit';
import { Edit } from './edit';

const WAITING = ['scheduled', 'pending', 'retrying', 'held', 'blocked'];

interface Choice {
    action: Action;
    kind?: 'main';
    key?: string;
}

/** The actions of a state, the most wanted first. */
function choices(job: WholeJob, state: string): Choice[] {
    const of = (word: string, label: string, does: string, done: string, more: Partial<Action> = {}): Action => ({
        label,
        does,
        done,
        needs: 'operate',
        method: 'POST',
        path: path(['jobs', job.id, word]),
        command: ['job', word, job.id],
        ...more,
    });
    const found: Choice[] = [];
    if (state === 'scheduled' || state === 'retrying') found.push({ action: of('run-now', 'Run now', 'It waits no longer.', 'It runs as soon as its queue lets it') });
    if ((ENDED as string[]).includes(state)) {
        const does = `Runs it again with the same payload and all its ${job.max_attempts} attempts${state === 'completed' ? ', without its checkpoint' : ''}. Its history stays.`;
        found.push({ action: of('retry', 'Retry', does, 'It runs again', { ask: state === 'completed' }), kind: 'main', key: 'r' });
    }
    if ((ENDED as string[]).includes(state) && (job.children || job.round !== undefined)) {
        const does = 'Runs it again from the start, without its checkpoint, after removing all jobs below it.';
        found.push({ action: of('rebuild', 'Rebuild', does, 'It is rebuilt', { ask: true }) });
    }
    if (state === 'dead') found.push({ action: of('requeue', 'One more attempt', 'Gives it one more attempt; its attempts so far still count.', 'It gets one more attempt') });
    if (['pending', 'scheduled', 'retrying', 'active'].includes(state)) found.push({ action: of('hold', 'Hold', 'It waits until somebody approves or rejects it.', 'It is held', { ask: state === 'active' }) });
    return found;
}

export function JobActions({ job, state, after }: { job: WholeJob; state: string; after(): void }) {
    const list = choices(job, state);
    const edit = () => show((close) => <Edit job={job} state={state} close={close} after={after} />);
    const ended = (ENDED as string[]).includes(state);
    const cancels = WAITING.includes(state) || state === 'active';
    const stop = () => show((close) => <Stop job={job} running={state === 'active'} close={close} after={after} />);
    const move = () => show((close) => <Move job={job} close={close} after={after} />);
    const remove: Action = {
        label: 'Delete',
        does: `Deletes ${job.id} with its payload, result, log and history.`,
        done: 'The job is deleted',
        needs: 'operate',
        method: 'DELETE',
        path: path(['jobs', job.id]),
        command: ['job', 'delete', job.id],
        final: true,
    };
    const gone = () => go(href(`/queues/${encodeURIComponent(job.queue)}`));
    const operates = may('operate');
    const like = href('/enqueue', { queue: job.queue, from: job.id });
    usePaletteEntries(
        operates
            ? [
                  ...list.map(({ action }) => ({ text: `${action.label} this job`, kind: 'action', run: () => act(action, { after }) })),
                  ...(state === 'active' ? [] : [{ text: ended ? 'Run again with another payload' : 'Edit this job', kind: 'action', run: edit }]),
                  ...(cancels ? [{ text: 'Cancel this job', kind: 'action', run: stop }] : []),
                  ...(may('enqueue') ? [{ text: 'Enqueue one like it', kind: 'action', run: () => go(like) }] : []),
                  { text: 'Move this job', kind: 'action', run: move },
                  { text: 'Delete this job', kind: 'action', run: () => act(remove, { after: gone }) },
              ]
            : [],
        [state, job.id, operates],
    );
    useEffect(() => {
        if (!operates) return;
        const keys = list.filter((one) => one.key).map((one) => ({ keys: one.key as string, does: one.action.label.toLowerCase(), group: 'This job', run: () => act(one.action, { after }) }));
        if (state !== 'active') keys.push({ keys: 'e', does: ended ? 'run again with another payload' : 'edit', group: 'This job', run: edit });
        return addShortcuts(keys);
    }, [state, job.id, operates]);
    if (!operates) return null;
    return (
        <>
            {list.map(({ action, kind }) => (
                <ActionButton key={action.label} action={action} kind={kind} after={after} />
            ))}
            {state !== 'active' && (
                <button type="button" onClick={edit}>
                    {ended ? 'Run again with…' : 'Edit…'}
                </button>
            )}
            {ended && may('enqueue') && (
                <a class="button" href={like}>
                    One like it
                </a>
            )}
            {!['active', 'cancelled'].includes(state) && (
                <button type="button" onClick={move}>
                    Move…
                </button>
            )}
            {cancels && (
                <button type="button" class="danger" onClick={stop}>
                    {state === 'active' ? 'Stop…' : 'Cancel…'}
                </button>
            )}
            {!cancels && <ActionButton action={remove} after={gone} />}
        </>
    );
}

export interface FormProps {
    job: WholeJob;
    close(): void;
    after(): void;
}

/** Stopping: a running attempt in the sandbox is asked, and after the grace it is stopped by force. */
function Stop({ job, running, close, after }: FormProps & { running: boolean }) {
    const [reason, setReason] = useState('');
    const [grace, setGrace] = useState('5s');
    const inside = running && !!job.plugin;
    const action: Action = {
        label: running ? 'Stop' : 'Cancel the job',
        does: !running
            ? 'It will not run. It can be retried later.'
            : inside
              ? `The attempt is asked to stop. If it has not ended after ${grace}, it is stopped by force. Its checkpoint stays.`
              : 'The worker is asked to stop with its next heartbeat. A worker that ignores it keeps running, but its result no longer counts as completed.',
        done: running ? 'It was asked to stop' : 'Cancelled',
        needs: 'operate',
        method: 'POST',
        path: path(['jobs', job.id, 'cancel']),
        body: { ...(reason ? { reason } : {}), ...(inside ? { grace } : {}) },
        command: ['job', 'cancel', job.id, ...(reason ? ['--reason', reason] : []), ...(inside && grace !== '5s' ? ['--grace', grace] : [])],
    };
    return (
        <FormDialog title={running ? 'Stop the running attempt' : 'Cancel'} action={action} close={close} after={after}>
            <Field label="Reason, for the timeline" value={reason} set={setReason} autofocus />
            {inside && <Select label="Grace before it is stopped by force" value={grace} set={setGrace} of={{ '0s': 'none', '5s': '5 s', '30s': '30 s', '2m': '2 m', '10m': '10 m' }} />}
        </FormDialog>
    );
}

function Move({ job, close, after }: FormProps) {
    const [queue, setQueue] = useState('');
    const action: Action | null = queue
        ? { label: 'Move', does: `Moves it from ${job.queue} to ${queue}.`, done: `Moved to ${queue}`, needs: 'operate', method: 'POST', path: path(['jobs', job.id, 'move']), body: { queue }, command: ['job', 'move', job.id, queue] }
        : null;
    return (
        <FormDialog title="Move" action={action} close={close} after={after}>
            <QueueField label="To the queue" value={queue} set={(text) => setQueue(text.trim())} autofocus />
        </FormDialog>
    );
}
