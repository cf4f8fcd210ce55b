// Buttons that do something: they ask first where something is lost, say what they did, and can be copied as a command, before and after.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import { asCommand, asCurl, run, type Action, type Described } from '../api/actions';
import { complain, notify } from '../app/notices';
import { may } from '../app/session';
import { Dialog, show } from './dialog';
import { Command } from './basics';

export interface Doing {
    /** Called with the answer after it was done. */
    after?(answer: unknown): void;
}

async function perform(action: Action, after?: (answer: unknown) => void) {
    const answer = await run(action);
    notify(action.done, { same: action });
    after?.(answer);
}

/** Does it: at once, or after a confirmation if it is `final` or says so. */
export function act(action: Action, doing: Doing = {}) {
    if (action.final || action.ask) show((close) => <Confirm action={action} close={close} after={doing.after} />);
    else perform(action, doing.after).catch(complain);
}

/** What will be done, to how many, and the same as a command. */
export function Confirm({ action, close, after, children }: { action: Action; close(): void; after?: (answer: unknown) => void; children?: ComponentChildren }) {
    const [busy, setBusy] = useState(false);
    const [wrong, setWrong] = useState('');
    const go = async () => {
        setBusy(true);
        setWrong('');
        try {
            await perform(action, after);
            close();
        } catch (error) {
            setWrong(error instanceof Error ? error.message : String(error));
            setBusy(false);
        }
    };
    return (
        <Dialog
            title={action.label}
            onClose={close}
            foot={
                <>
                    <button type="button" onClick={close}>
                        Back
                    </button>
                    <button type="button" class={action.final ? 'danger' : 'main'} disabled={busy} onClick={go} autofocus>
                        {busy ? 'Working…' : action.label}
                    </button>
                </>
            }
        >
            <p>{action.does}</p>
            {action.final && <p class="warn-line">This cannot be undone.</p>}
            {children}
            {wrong && (
                <p class="wrong-line" role="alert">
                    {wrong}
                </p>
            )}
            <AsCommands action={action} />
        </Dialog>
    );
}

export function AsCommands({ action }: { action: Described }) {
    return (
        <details class="as-commands">
            <summary>The same from a terminal</summary>
            <Lines action={action} />
        </details>
    );
}

function Lines({ action }: { action: Described }) {
    const command = asCommand(action);
    return (
        <>
            {command && <Command text={command} />}
            <Command text={asCurl(action)} />
        </>
    );
}

/** What the page that is shown offers. */
export const offered = signal<{ current: Action }[]>([]);

/** What each button of the page does, and the same from a terminal: also for those that do it at once. */
export const showOffered = () =>
    show((close) => (
        <Dialog title="What this page can do" onClose={close} wide>
            {offered.value.map(({ current: action }) => (
                <section key={action.path + action.label} class="stack tight">
                    <h3>{action.label}</h3>
                    <p class="dim">{action.does}</p>
                    <Lines action={action} />
                </section>
            ))}
        </Dialog>
    ));

/** A button for an action; absent for those who may not. */
export function ActionButton({ action, after, kind, disabled }: { action: Action; after?: (answer: unknown) => void; kind?: 'main' | 'danger' | ''; disabled?: boolean }) {
    const place = useRef<HTMLButtonElement>(null);
    const latest = useRef(action);
    latest.current = action;
    const allowed = may(action.needs);
    // Those of a row are the same in each row, and would fill the list.
    useEffect(() => {
        if (!allowed || !place.current || place.current.closest('td')) return;
        offered.value = [...offered.value, latest];
        return () => {
            offered.value = offered.value.filter((one) => one !== latest);
        };
    }, [allowed]);
    const [busy, setBusy] = useState(false);
    if (!allowed) return null;
    const press = () => {
        if (action.final || action.ask) return act(action, { after });
        setBusy(true);
        void perform(action, after)
            .catch(complain)
            .finally(() => setBusy(false));
    };
    return (
        <button ref={place} type="button" class={kind ?? (action.final ? 'danger' : '')} disabled={disabled || busy} title={action.does} onClick={press}>
            {action.label}
            {action.final || action.ask ? '…' : ''}
        </button>
    );
}
