// One action on many jobs: first what it would do, then the confirmation, then its progress.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Action, Described } from '../../api/actions';
import { get, path, post } from '../../api/client';
import type { Bulk, DryRun } from '../../api/types';
import { addShortcuts } from '../../app/keys';
import * as live from '../../app/live';
import { explain, notify } from '../../app/notices';
import { may } from '../../app/session';
import { ActionButton, AsCommands } from '../actions';
import { Meter } from '../basics';
import { Dialog, show } from '../dialog';
import { count, plural } from '../format';
import { asFlags, type Filter } from './filter';

/** Which jobs: those that were chosen, or all that match. */
export type Which = { ids: string[] } | { filter: Filter };

export interface BulkAction {
    action: string;
    label: string;
    /** `retried`: what the jobs are afterwards. */
    done: string;
    final?: boolean;
    asks?: 'queue' | 'priority' | 'reason';
    /** In a list, for those that are chosen, or else for all that match. */
    key?: string;
}

export const BULK: BulkAction[] = [
    { action: 'retry', label: 'Retry', done: 'retried', key: 'r' },
    { action: 'requeue', label: 'One more attempt', done: 'given one more attempt' },
    { action: 'run_now', label: 'Run now', done: 'made to wait no longer' },
    { action: 'approve', label: 'Approve', done: 'approved', key: 'a' },
    { action: 'reject', label: 'Reject', done: 'rejected', asks: 'reason', key: 'd' },
    { action: 'cancel', label: 'Cancel', done: 'cancelled', asks: 'reason', key: 'c' },
    { action: 'hold', label: 'Hold', done: 'held', asks: 'reason' },
    { action: 'move', label: 'Move', done: 'moved', asks: 'queue' },
    { action: 'change_priority', label: 'Priority', done: 'given another priority', asks: 'priority' },
    { action: 'delete', label: 'Delete', done: 'deleted', final: true },
];

/** Buttons for what can be done with these; absent for those who may not. */
export function BulkButtons({ which, actions, after, keys }: { which: Which; actions: string[]; after?(): void; keys?: boolean }) {
    const operates = may('operate');
    const open = (action: BulkAction) => show((close) => <BulkDialog which={which} action={action} close={close} after={after} />);
    const latest = useRef(open);
    latest.current = open;
    useEffect(() => {
        if (!keys || !operates) return;
        const offered = BULK.filter((one) => one.key && actions.includes(one.action));
        return addShortcuts(offered.map((one) => ({ keys: one.key as string, does: `${one.label.toLowerCase()} those that are chosen, or all that match`, group: 'Lists', run: () => latest.current(one) })));
    }, [keys, operates, actions.join()]);
    if (!operates) return null;
    return (
        <>
            {BULK.filter((one) => actions.includes(one.action)).map((one) => (
                <button key={one.action} type="button" class={one.final ? 'danger' : ''} onClick={() => open(one)}>
                    {one.label}…
                </button>
            ))}
        </>
    );
}

export const bulkDialog = (which: Which, action: string, after?: () => void) => {
    const found = BULK.find((one) => one.action === action);
    if (found) show((close) => <BulkDialog which={which} action={found} close={close} after={after} />);
};

interface Accepted {
    bulk_operation_id: string;
    affected?: number;
    errors?: number;
}

function BulkDialog({ which, action, close, after }: { which: Which; action: BulkAction; close(): void; after?(): void }) {
    const [extra, setExtra] = useState('');
    const [dry, setDry] = useState<DryRun>();
    const [wrong, setWrong] = useState('');
    const [running, setRunning] = useState('');
    const [busy, setBusy] = useState(false);
    const needed = action.asks === 'queue' || action.asks === 'priority';
    const body: Record<string, unknown> = { ...('ids' in which ? { job_ids: which.ids } : { filter: which.filter }), action: action.action };
    if (extra && action.asks === 'queue') body.move_to_queue = extra;
    if (action.asks === 'priority') body.priority = extra || 'high';
    if (extra && action.asks === 'reason') body.reason = extra;
    // Another target or reason does not change which jobs are affected.
    useEffect(() => {
        const mine = new AbortController();
        const asked = action.asks === 'queue' ? { ...body, move_to_queue: body.move_to_queue ?? 'x' } : body;
        post<DryRun>('/jobs/bulk', { ...asked, dry_run: true }, mine.signal).then(setDry, (error) => mine.signal.aborted || setWrong(explain(error)));
        return () => mine.abort();
    }, []);
    const go = async () => {
        setBusy(true);
        setWrong('');
        try {
            const answer = await post<Accepted>('/jobs/bulk', body);
            if (answer.affected === undefined) return setRunning(answer.bulk_operation_id);
            notify(`${plural(answer.affected, 'job')} ${action.done}${answer.errors ? `, ${count(answer.errors)} could not be` : ''}`, { same });
            after?.();
            close();
        } catch (error) {
            setWrong(explain(error));
        }
        setBusy(false);
    };
    if (running) return <Running id={running} action={action} close={close} after={after} />;
    const n = dry?.affected ?? 0;
    const word = action.label.toLowerCase();
    const named = 'ids' in which ? which.ids : asFlags(which.filter);
    const flags: [string, unknown][] = [
        ['--to', body.move_to_queue],
        ['--set-priority', body.priority],
        ['--reason', body.reason],
    ];
    // Without a filter the command would read ids from its input.
    const command = named.length ? ['bulk', action.action.replace('_', '-'), ...named, ...flags.flatMap(([flag, value]) => (value ? [flag, String(value)] : [])), ...(action.final ? ['--yes'] : [])] : undefined;
    const same: Described = { method: 'POST', path: '/jobs/bulk', body, command };
    return (
        <Dialog
            title={`${action.label} many jobs`}
            onClose={close}
            foot={
                <>
                    <button type="button" onClick={close}>
                        Back
                    </button>
                    <button type="button" class={action.final ? 'danger' : 'main'} disabled={busy || !n || (needed && action.asks === 'queue' && !extra)} onClick={go}>
                        {busy ? 'Working…' : `${action.label} ${plural(n, 'job')}`}
                    </button>
                </>
            }
        >
            {dry ? (
                <div role="status">
                    <p>
                        <b>{plural(n, 'job')}</b> will be {action.done}
                        {dry.passed_over ? `; ${count(dry.passed_over)} of the ${count(dry.total)} will be passed over:` : '.'}
                    </p>
                    {dry.reasons.length > 0 && (
                        <ul class="dim">
                            {dry.reasons.map((one) => (
                                <li key={one.reason}>{one.reason}</li>
                            ))}
                        </ul>
                    )}
                </div>
            ) : (
                !wrong && <p aria-busy="true">Counting what {word} would do…</p>
            )}
            {action.final && <p class="warn-line">This cannot be undone.</p>}
            {action.asks === 'queue' && (
                <label class="field">
                    To the queue
                    <input list="all-queues" value={extra} onInput={(event) => setExtra(event.currentTarget.value)} autofocus />
                    <datalist id="all-queues">
                        {Object.keys(live.queues.value).map((name) => (
                            <option key={name} value={name} />
                        ))}
                    </datalist>
                </label>
            )}
            {action.asks === 'priority' && (
                <label class="field">
                    Priority
                    <select value={extra || 'high'} onChange={(event) => setExtra(event.currentTarget.value)}>
                        {['critical', 'high', 'normal', 'low'].map((one) => (
                            <option key={one}>{one}</option>
                        ))}
                    </select>
                </label>
            )}
            {action.asks === 'reason' && (
                <label class="field">
                    Reason, for the jobs' timelines
                    <input value={extra} onInput={(event) => setExtra(event.currentTarget.value)} />
                </label>
            )}
            {wrong && (
                <p class="wrong-line" role="alert">
                    {wrong}
                </p>
            )}
            <AsCommands action={same} />
        </Dialog>
    );
}

const ASK_MS = 500;

/** An operation that takes longer; closing the dialog does not stop it. */
function Running({ id, action, close, after }: { id: string; action: BulkAction; close(): void; after?(): void }) {
    const [now, setNow] = useState<Bulk>();
    const over = now !== undefined && !['queued', 'running'].includes(now.status);
    // Asked for by itself: the pulse may be paused, and whoever waits for this wants to see it move.
    useEffect(() => {
        if (over) return after?.();
        const mine = new AbortController();
        const ask = () => void get<Bulk>(path(['bulk', id]), mine.signal).then(setNow, () => undefined);
        ask();
        const timer = setInterval(ask, ASK_MS);
        return () => {
            clearInterval(timer);
            mine.abort();
        };
    }, [over]);
    const stop: Action = {
        label: 'Stop',
        does: 'Stops it here. The jobs that it has handled stay as they are.',
        done: 'It was asked to stop',
        needs: 'operate',
        method: 'POST',
        path: path(['bulk', id, 'cancel']),
        command: ['bulk', 'stop', id],
    };
    return (
        <Dialog
            title={`${action.label} many jobs`}
            onClose={close}
            foot={
                <>
                    {!over && <ActionButton action={stop} kind="danger" />}
                    <button type="button" class="main" onClick={close}>
                        {over ? 'Close' : 'Go on in the background'}
                    </button>
                </>
            }
        >
            <p role="status">
                {over ? `Ended: ${now.status}. ` : ''}
                {now ? `${count(now.processed)} of ${plural(now.total, 'job')} handled, ${count(now.affected)} ${action.done}.` : 'Begun…'}
                {now?.errors ? ` ${count(now.errors)} could not be.` : ''}
            </p>
            <Meter value={now?.processed ?? 0} of={now?.total ?? 1} label="handled" wide />
            {now?.error && <p class="wrong-line">{now.error}</p>}
            {!over && <AsCommands action={stop} />}
        </Dialog>
    );
}
