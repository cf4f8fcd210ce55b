// What can be done with a job in its state. Each is described once, and shown, sent and copied from that.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import {
    act, ActionButton, addShortcuts, AsCommands, complain, Dialog, ENDED, explain, go, href, isJson, live, may, notify, path, pretty, run, send, show, usePaletteEntries, type Action, type WholeJob,
} from '#kit';

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
    usePaletteEntries(
        operates
            ? [
                  ...list.map(({ action }) => ({ text: `${action.label} this job`, kind: 'action', run: () => act(action, { after }) })),
                  ...(state === 'active' ? [] : [{ text: ended ? 'Run again with another payload' : 'Edit this job', kind: 'action', run: edit }]),
                  ...(cancels ? [{ text: 'Cancel this job', kind: 'action', run: stop }] : []),
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

interface FormProps {
    job: WholeJob;
    close(): void;
    after(): void;
}

/** The frame that the forms share: what is wrong stands below, and the same is a command. */
function Form(props: { title: string; action: Action | null; why?: string; close(): void; after(): void; children: ComponentChildren }) {
    const [wrong, setWrong] = useState('');
    const [busy, setBusy] = useState(false);
    const submit = async (event: Event) => {
        event.preventDefault();
        if (!props.action) return;
        setBusy(true);
        setWrong('');
        try {
            await run(props.action);
            notify(props.action.done);
            props.close();
            props.after();
        } catch (error) {
            setWrong(explain(error));
            setBusy(false);
        }
    };
    return (
        <Dialog
            title={props.title}
            onClose={props.close}
            wide={props.title.includes('payload')}
            foot={
                <>
                    <button type="button" onClick={props.close}>
                        Back
                    </button>
                    <button type="submit" form="job-form" class={props.action?.final ? 'danger' : 'main'} disabled={busy || !props.action}>
                        {busy ? 'Working…' : (props.action?.label ?? props.title)}
                    </button>
                </>
            }
        >
            <form id="job-form" class="stack" onSubmit={submit}>
                {props.action && <p>{props.action.does}</p>}
                {props.children}
                {(props.why || wrong) && (
                    <p class="wrong-line" role="alert">
                        {wrong || props.why}
                    </p>
                )}
            </form>
            {props.action && <AsCommands action={props.action} />}
        </Dialog>
    );
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
        <Form title={running ? 'Stop the running attempt' : 'Cancel'} action={action} close={close} after={after}>
            <label class="field">
                Reason, for the timeline
                <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} autofocus />
            </label>
            {inside && (
                <label class="field">
                    Grace before it is stopped by force
                    <select value={grace} onChange={(event) => setGrace(event.currentTarget.value)}>
                        {['0s', '5s', '30s', '2m', '10m'].map((one) => (
                            <option key={one} value={one}>
                                {one === '0s' ? 'none' : one}
                            </option>
                        ))}
                    </select>
                </label>
            )}
        </Form>
    );
}

function Move({ job, close, after }: FormProps) {
    const [queue, setQueue] = useState('');
    const action: Action | null = queue
        ? { label: 'Move', does: `Moves it from ${job.queue} to ${queue}.`, done: `Moved to ${queue}`, needs: 'operate', method: 'POST', path: path(['jobs', job.id, 'move']), body: { queue }, command: ['job', 'move', job.id, queue] }
        : null;
    return (
        <Form title="Move" action={action} close={close} after={after}>
            <label class="field">
                To the queue
                <input list="queues-to-move-to" value={queue} onInput={(event) => setQueue(event.currentTarget.value.trim())} autofocus />
                <datalist id="queues-to-move-to">
                    {Object.keys(live.queues.value).map((name) => (
                        <option key={name} value={name} />
                    ))}
                </datalist>
            </label>
        </Form>
    );
}

/** Larger payloads are not edited in a page. */
const EDIT_BYTES = 512 * 1024;

/** An ended job runs again with what is written here; a waiting one is changed. The text is sent as it is, so that large numbers stay exact. */
function Edit({ job, state, close, after }: FormProps & { state: string }) {
    const ended = (ENDED as string[]).includes(state);
    const preview = job.payload_preview;
    const [text, setText] = useState<string | null>(preview && !preview.truncated && preview.encoding === 'text' ? shown(preview.text) : null);
    const [priority, setPriority] = useState(job.priority);
    const before = text;
    const [start] = useState(before);
    useEffect(() => {
        if (text !== null || (preview && (preview.encoding !== 'text' || preview.size_bytes > EDIT_BYTES))) return;
        send('GET', path(['jobs', job.id, 'payload'])).then(async (response) => setText(shown(await response.text())), complain);
    }, []);
    if (preview && (preview.encoding !== 'text' || preview.size_bytes > EDIT_BYTES)) {
        return (
            <Form title="Another payload" action={null} close={close} after={after}>
                <p>The payload is too large to edit here, or not text. Download it, change it, and enqueue it with the command: windlass enqueue {job.queue} --payload-file FILE</p>
            </Form>
        );
    }
    const valid = text !== null && isJson(text);
    const changed = text !== start;
    const parts = [...(ended || changed ? [`"payload":${text}`] : []), ...(!ended && priority !== job.priority ? [`"priority":${JSON.stringify(priority)}`] : [])];
    const action: Action | null =
        valid && (ended || parts.length > 0)
            ? {
                  label: ended ? 'Run again' : 'Save',
                  does: ended ? 'Runs this job again with the payload below, with all its attempts and without its checkpoint. Its history stays.' : 'Changes the job before it runs.',
                  done: ended ? 'It runs again' : 'Saved',
                  needs: 'operate',
                  method: ended ? 'POST' : 'PATCH',
                  path: ended ? path(['jobs', job.id, 'retry']) : path(['jobs', job.id]),
                  body: `{${parts.join(',')}}`,
              }
            : null;
    return (
        <Form title={ended ? 'Run again with another payload' : 'Edit payload and priority'} action={action} why={text !== null && !valid ? 'This is not JSON yet.' : undefined} close={close} after={after}>
            {!ended && (
                <label class="field">
                    Priority
                    <select value={priority} onChange={(event) => setPriority(event.currentTarget.value)}>
                        {['critical', 'high', 'normal', 'low'].map((one) => (
                            <option key={one}>{one}</option>
                        ))}
                    </select>
                </label>
            )}
            <label class="field">
                Payload
                <textarea rows={16} spellcheck={false} value={text ?? ''} aria-invalid={!valid} onInput={(event) => setText(event.currentTarget.value)} autofocus />
            </label>
        </Form>
    );
}

const shown = (text: string) => (isJson(text) ? pretty(text) : text);
