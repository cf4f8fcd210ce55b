// A sweep: rebuilds the jobs of a queue with rounds that failed or are marked. The page of the queue and that of its rounds share it.
import { useState } from 'preact/hooks';
import { act, AsCommands, count, Dialog, get, live, path, plural, show, useResource, type Action } from '#kit';

interface Choice {
    failed: boolean;
    marked: boolean;
    cancelled: boolean;
}

function sweeping(name: string, choice: Choice): Action {
    const which = [choice.failed && 'dead jobs', choice.marked && 'jobs whose records are marked', choice.cancelled && 'cancelled jobs'].filter(Boolean).join(', ');
    return {
        label: 'Sweep',
        does: `Rebuilds the ${which} of ${name}, in all rounds: everything below each of them is removed, and it runs from the start.`,
        done: `a sweep of ${name} has begun`,
        needs: 'operate',
        method: 'POST',
        path: path(['queues', name, 'sweep']),
        body: { ...choice, async: true },
        command: ['queue', 'sweep', name, ...(choice.failed ? [] : ['--no-failed']), ...(choice.marked ? [] : ['--no-marked']), ...(choice.cancelled ? ['--cancelled'] : []), '--async'],
    };
}

export const openSweep = (name: string, after: () => void) => show((close) => <Sweep name={name} close={close} after={after} />);

function Sweep({ name, close, after }: { name: string; close(): void; after(): void }) {
    const dead = live.queues.value[name]?.dead;
    const [choice, set] = useState<Choice>({ failed: true, marked: true, cancelled: false });
    const action = sweeping(name, choice);
    const nothing = !choice.failed && !choice.marked && !choice.cancelled;
    const marked = useResource(`marked ${name}`, (signal) => get<{ records: unknown[]; next?: string }>(path(['queues', name, 'records'], { marked: true, limit: 1000 }), signal));
    const many = marked.data && (marked.data.next ? `more than ${plural(marked.data.records.length, 'record')}` : plural(marked.data.records.length, 'record'));
    const check = (key: keyof Choice, text: string) => (
        <label class="check">
            <input type="checkbox" checked={choice[key]} onChange={(event) => set({ ...choice, [key]: event.currentTarget.checked })} />
            {text}
        </label>
    );
    const go = () =>
        act(action, {
            after() {
                close();
                after();
            },
        });
    return (
        <Dialog
            title={`Sweep ${name}`}
            onClose={close}
            foot={
                <>
                    <button type="button" onClick={close}>
                        Back
                    </button>
                    <button type="button" class="danger" disabled={nothing} onClick={go}>
                        Sweep
                    </button>
                </>
            }
        >
            <p>Each job that is chosen is rebuilt: everything below it is removed, and it runs from the start.</p>
            {check('failed', `Dead jobs${dead === undefined ? '' : `: ${count(dead)}`}`)}
            {check('marked', `Jobs whose records are marked${many ? `: ${many}` : ''}`)}
            {check('cancelled', 'Cancelled jobs')}
            <p class="warn-line">What is removed cannot be brought back.</p>
            <AsCommands action={action} />
        </Dialog>
    );
}
