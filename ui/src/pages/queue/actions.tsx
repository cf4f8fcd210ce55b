// What can be done with a queue as a whole.
import { useState } from 'preact/hooks';
import { act, ActionButton, AsCommands, count, Dialog, explain, go, href, may, notify, path, plural, run, show, usePaletteEntries, type Action, type QueueRow } from '#kit';

function actions(queue: QueueRow): { stop: Action; drain: Action; clear: Action; remove: Action } {
    const of = (word: string, label: string, does: string, done: string, more: Partial<Action> = {}): Action => ({
        label,
        does,
        done,
        needs: 'operate',
        method: 'POST',
        path: path(['queues', queue.name, word]),
        command: ['queue', word, queue.name],
        ...more,
    });
    const waits = queue.pending + queue.scheduled;
    return {
        stop: queue.paused
            ? of('resume', 'Resume', `Starts jobs of ${queue.name} again; ${count(queue.pending)} wait.`, `${queue.name} runs again`)
            : of('pause', 'Pause', `Starts no more jobs of ${queue.name}. The ${count(queue.active)} that run go on.`, `${queue.name} is paused`),
        drain: of('drain', 'Drain', `Starts no more jobs of ${queue.name}, and shows it as draining until the ${count(queue.active)} that run have ended.`, `${queue.name} drains`, { ask: true }),
        clear: of('clear', 'Clear', `Deletes the ${plural(waits, 'pending and scheduled job')} of ${queue.name}.`, `${queue.name} is cleared`, { final: true, command: ['queue', 'clear', queue.name, '--confirm'] }),
        remove: {
            label: 'Delete',
            does: `Deletes the queue ${queue.name} with all its ${plural(queue.total, 'job')} and its settings.`,
            done: `${queue.name} is deleted`,
            needs: 'operate',
            method: 'DELETE',
            path: path(['queues', queue.name], { confirm: true }),
            command: ['queue', 'destroy', queue.name, '--confirm'],
            final: true,
        },
    };
}

export function QueueActions({ queue }: { queue: QueueRow }) {
    const { stop, drain, clear, remove } = actions(queue);
    const limits = () => show((close) => <Limits queue={queue} close={close} />);
    const gone = () => go(href('/queues'));
    const operates = may('operate');
    usePaletteEntries(
        operates
            ? [
                  ...[stop, drain, clear].map((action) => ({ text: `${action.label} this queue`, kind: 'action', run: () => act(action) })),
                  { text: 'Limits of this queue', kind: 'action', run: limits },
                  { text: 'Delete this queue', kind: 'action', run: () => act(remove, { after: gone }) },
              ]
            : [],
        [queue.name, queue.paused, operates],
    );
    if (!operates) return null;
    return (
        <>
            <ActionButton action={stop} kind={queue.paused ? 'main' : ''} />
            {!queue.paused && <ActionButton action={drain} />}
            {may('enqueue') && (
                <a class="button" href={href('/enqueue', { queue: queue.name })}>
                    Enqueue
                </a>
            )}
            <button type="button" onClick={limits}>
                Limits…
            </button>
            <ActionButton action={clear} disabled={queue.pending + queue.scheduled === 0} />
            <ActionButton action={remove} after={gone} />
        </>
    );
}

/** How many run at once, and how many start in a span. */
function Limits({ queue, close }: { queue: QueueRow; close(): void }) {
    const [max, setMax] = useState(queue.max_concurrency ? String(queue.max_concurrency) : '');
    const [starts, setStarts] = useState(queue.rate_limit ? String(queue.rate_limit) : '');
    const [per, setPer] = useState(queue.rate_window_ms ? `${queue.rate_window_ms / 1000}s` : '1m');
    const [wrong, setWrong] = useState('');
    const body = { max_concurrency: max ? Number(max) : null, rate: starts ? { count: Number(starts), per } : null };
    const action: Action = {
        label: 'Set limits',
        does: `${max ? `At most ${max} jobs of ${queue.name} run at once` : `${queue.name} runs as many jobs at once as there is room for`}, ${starts ? `and at most ${starts} start in ${per}` : 'and any number start'}.`,
        done: `The limits of ${queue.name} are set`,
        needs: 'operate',
        method: 'POST',
        path: path(['queues', queue.name, 'settings']),
        body,
        command: ['queue', 'set', queue.name, '--concurrency', max || 'none', '--rate', starts ? `${starts}/${per}` : 'none'],
    };
    const submit = async (event: Event) => {
        event.preventDefault();
        try {
            await run(action);
            notify(action.done);
            close();
        } catch (error) {
            setWrong(explain(error));
        }
    };
    return (
        <Dialog
            title={`Limits of ${queue.name}`}
            onClose={close}
            foot={
                <>
                    <button type="button" onClick={close}>
                        Back
                    </button>
                    <button type="submit" form="limits" class="main">
                        Set limits
                    </button>
                </>
            }
        >
            <form id="limits" class="stack" onSubmit={submit}>
                <label class="field">
                    Jobs at once (empty: no limit)
                    <input type="number" min={1} value={max} onInput={(event) => setMax(event.currentTarget.value)} autofocus />
                </label>
                <div class="row">
                    <label class="field grow">
                        Starts (empty: no limit)
                        <input type="number" min={1} value={starts} onInput={(event) => setStarts(event.currentTarget.value)} />
                    </label>
                    <label class="field">
                        in
                        <input value={per} onInput={(event) => setPer(event.currentTarget.value)} />
                    </label>
                </div>
                <p>{action.does}</p>
                {wrong && (
                    <p class="wrong-line" role="alert">
                        {wrong}
                    </p>
                )}
            </form>
            <AsCommands action={action} />
        </Dialog>
    );
}

