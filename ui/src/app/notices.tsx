// Short messages at the edge: what was done, what went wrong. Screen readers hear them.
import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { asCommand, asCurl, type Described } from '../api/actions';

interface Notice {
    id: number;
    kind: 'done' | 'wrong';
    text: string;
    link?: { href: string; text: string };
    /** What was done, to be copied as a line for the terminal. */
    same?: Described;
}

const STAY_MS = 8000;
const all = signal<Notice[]>([]);
let next = 1;

export function notify(text: string, options: Partial<Pick<Notice, 'kind' | 'link' | 'same'>> = {}) {
    const notice: Notice = { id: next++, text, ...options, kind: options.kind ?? 'done' };
    all.value = [...all.value.slice(-3), notice];
    // What went wrong stays until it is closed.
    if (notice.kind === 'done') setTimeout(() => close(notice.id), STAY_MS);
}

/** An error as people should read it. */
export const explain = (error: unknown) => (error instanceof Error ? error.message : String(error));
export const complain = (error: unknown) => {
    if (error instanceof DOMException && error.name === 'AbortError') return;
    notify(explain(error), { kind: 'wrong' });
};

const close = (id: number) => (all.value = all.value.filter((one) => one.id !== id));

export function Notices() {
    return (
        <div class="notices" role="status" aria-live="polite">
            {all.value.map((one) => (
                <div key={one.id} class={`notice ${one.kind}`}>
                    <span class="notice-text">{one.text}</span>
                    {one.link && <a href={one.link.href}>{one.link.text}</a>}
                    {one.same && <Same of={one.same} />}
                    <button type="button" class="quiet" aria-label="Close this message" onClick={() => close(one.id)}>
                        ×
                    </button>
                </div>
            ))}
        </div>
    );
}

/** The same as was just done, for a script: `windlass …` and curl. */
function Same({ of }: { of: Described }) {
    const [copied, set] = useState('');
    const lines: [string, string | null][] = [
        ['windlass', asCommand(of)],
        ['curl', asCurl(of)],
    ];
    return (
        <span class="same">
            {lines.map(
                ([name, line]) =>
                    line && (
                        <button key={name} type="button" class="quiet small" title={line} aria-label={`Copy as ${name}`} onClick={() => navigator.clipboard.writeText(line).then(() => set(name), complain)}>
                            {copied === name ? 'copied' : name}
                        </button>
                    ),
            )}
        </span>
    );
}
