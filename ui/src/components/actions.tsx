// Buttons that do something: they ask first where something is lost, say what they did, and can be copied as a command.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { asCommand, asCurl, run, type Action } from '../api/actions';
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
    notify(action.done);
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
                        Cancel
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

export function AsCommands({ action }: { action: Pick<Action, 'method' | 'path' | 'body' | 'shows' | 'command'> }) {
    const command = asCommand(action);
    return (
        <details class="as-commands">
            <summary>The same from a terminal</summary>
            {command && <Command text={command} />}
            <Command text={asCurl(action)} />
        </details>
    );
}

/** A button for an action; absent for those who may not. */
export function ActionButton({ action, after, kind, disabled }: { action: Action; after?: (answer: unknown) => void; kind?: 'main' | 'danger' | ''; disabled?: boolean }) {
    if (!may(action.needs)) return null;
    return (
        <button type="button" class={kind ?? (action.final ? 'danger' : '')} disabled={disabled} title={action.does} onClick={() => act(action, { after })}>
            {action.label}
            {action.final || action.ask ? '…' : ''}
        </button>
    );
}
