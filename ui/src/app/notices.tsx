// Short messages at the edge: what was done, what went wrong. Screen readers hear them.
import { signal } from '@preact/signals';

interface Notice {
    id: number;
    kind: 'done' | 'wrong';
    text: string;
    link?: { href: string; text: string };
}

const STAY_MS = 6000;
const all = signal<Notice[]>([]);
let next = 1;

export function notify(text: string, options: { kind?: Notice['kind']; link?: Notice['link'] } = {}) {
    const notice: Notice = { id: next++, kind: options.kind ?? 'done', text, link: options.link };
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
                    <button type="button" class="quiet" aria-label="Close this message" onClick={() => close(one.id)}>
                        ×
                    </button>
                </div>
            ))}
        </div>
    );
}
