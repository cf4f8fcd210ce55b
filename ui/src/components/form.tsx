// Forms: fields with their labels, and a dialog that does one thing with what was entered.
import type { ComponentChildren } from 'preact';
import { useId, useState } from 'preact/hooks';
import { run, type Action } from '../api/actions';
import * as live from '../app/live';
import { explain, notify } from '../app/notices';
import { AsCommands } from './actions';
import { Dialog } from './dialog';

/** What a field can say about its input. */
interface Input {
    type?: 'text' | 'number' | 'password' | 'url' | 'datetime-local';
    placeholder?: string;
    class?: string;
    autocomplete?: 'off' | 'new-password';
    min?: number;
    max?: number;
    step?: number | 'any';
    required?: boolean;
    disabled?: boolean;
    autofocus?: boolean;
    spellcheck?: boolean;
    'aria-invalid'?: boolean;
}


/** A line of text with its label, and values to choose from. */
export function Field({ label, value, set, hint, options, ...input }: Input & { label: ComponentChildren; value: string; set(text: string): void; hint?: ComponentChildren; options?: string[] }) {
    const id = useId();
    return (
        <label class="field">
            <span>{label}</span>
            <input {...(input as object)} list={options ? id : undefined} value={value} onInput={(event) => set(event.currentTarget.value)} />
            {options && (
                <datalist id={id}>
                    {options.map((one) => (
                        <option key={one} value={one} />
                    ))}
                </datalist>
            )}
            {hint && <span class="hint">{hint}</span>}
        </label>
    );
}

/** The name of a queue, of those that there are or another. */
export const QueueField = (props: Parameters<typeof Field>[0]) => <Field spellcheck={false} autocomplete="off" {...props} options={Object.keys(live.queues.value)} />;

export function Select({ label, value, of, set }: { label: ComponentChildren; value: string; of: Record<string, string>; set(to: string): void }) {
    return (
        <label class="field">
            <span>{label}</span>
            <select value={value} onChange={(event) => set(event.currentTarget.value)}>
                {Object.entries(of).map(([key, title]) => (
                    <option key={key} value={key}>
                        {title}
                    </option>
                ))}
            </select>
        </label>
    );
}

export function Check({ label, checked, set, disabled }: { label: ComponentChildren; checked: boolean; set(on: boolean): void; disabled?: boolean }) {
    return (
        <label class="check">
            <input type="checkbox" checked={checked} disabled={disabled} onChange={(event) => set(event.currentTarget.checked)} />
            <span>{label}</span>
        </label>
    );
}

/** One of several, each with what it means. */
export function Choices<T extends string>({ legend, value, of, set }: { legend: string; value: T; of: [T, string, ComponentChildren?][]; set(to: T): void }) {
    const id = useId();
    return (
        <fieldset class="choices">
            <legend>{legend}</legend>
            {of.map(([key, title, about]) => (
                <label key={key}>
                    <input type="radio" name={id} checked={value === key} onChange={() => set(key)} />
                    <span>
                        <b>{title}</b>
                        {about && <span class="dim">{about}</span>}
                    </span>
                </label>
            ))}
        </fieldset>
    );
}

interface FormProps<T> {
    title: string;
    /** What the button does; null while something is missing, and `why` says what. */
    action: Action | null;
    why?: string;
    /** On the button while there is no action yet; the title if absent. */
    label?: string;
    wide?: boolean;
    close(): void;
    after?(answer: T): void;
    /** Instead of sending the action as it is. */
    go?(): Promise<T>;
    children?: ComponentChildren;
}

/** What is entered, what will be done with it, and the same as a command. What the server refuses stands below, and nothing is lost. */
export function FormDialog<T = unknown>({ title, action, why, label, wide, close, after, go, children }: FormProps<T>) {
    const id = useId();
    const [wrong, setWrong] = useState('');
    const [busy, setBusy] = useState(false);
    const submit = async (event: Event) => {
        event.preventDefault();
        if (!action || busy) return;
        setBusy(true);
        setWrong('');
        try {
            const answer = go ? await go() : await run<T>(action);
            notify(action.done, { same: action });
            close();
            after?.(answer);
        } catch (error) {
            setWrong(explain(error));
            setBusy(false);
        }
    };
    return (
        <Dialog
            title={title}
            onClose={close}
            wide={wide}
            foot={
                <>
                    <button type="button" onClick={close}>
                        Back
                    </button>
                    <button type="submit" form={id} class={action?.final ? 'danger' : 'main'} disabled={busy || !action}>
                        {busy ? 'Working…' : (action?.label ?? label ?? title)}
                    </button>
                </>
            }
        >
            <form id={id} class="stack" onSubmit={submit}>
                {children}
                {action && <p>{action.does}</p>}
                {action?.final && <p class="warn-line">This cannot be undone.</p>}
                {(wrong || (!action && why)) && (
                    <p class={wrong ? 'wrong-line keep-lines' : 'dim'} role={wrong ? 'alert' : undefined}>
                        {wrong || why}
                    </p>
                )}
            </form>
            {action && <AsCommands action={action} />}
        </Dialog>
    );
}

/** Something that is shown once: a key, a secret. */
export function ShownOnce({ title, about, text, close, copy }: { title: string; about: string; text: string; close(): void; copy: ComponentChildren }) {
    return (
        <Dialog
            title={title}
            onClose={close}
            foot={
                <button type="button" class="main" onClick={close}>
                    I have stored it
                </button>
            }
        >
            <p>{about}</p>
            <div class="command">
                <code>{text}</code>
                {copy}
            </div>
            <p class="warn-line">It is not shown again: the server stores only what it needs to recognise it.</p>
        </Dialog>
    );
}
