// The keyboard: single keys, and `g` followed by another. They do nothing while somebody types or a dialog is open.
import { signal } from '@preact/signals';

export interface Shortcut {
    /** `j`, `Enter`, `g q`. */
    keys: string;
    does: string;
    run(event: KeyboardEvent): void;
    /** Shown under this heading in the help. */
    group?: string;
}

const active = signal<Shortcut[]>([]);
export const shortcuts = active;

/** Adds shortcuts until the returned function is called. The latest that has a key gets it. */
export function addShortcuts(list: Shortcut[]): () => void {
    active.value = [...active.value, ...list];
    return () => {
        active.value = active.value.filter((one) => !list.includes(one));
    };
}

const PAIR_MS = 1200;
let first = '';
let firstAt = 0;

function typing(target: EventTarget | null): boolean {
    const element = target as HTMLElement | null;
    return !!element?.closest?.('input, textarea, select, [contenteditable]');
}

export function listenToKeys() {
    document.addEventListener('keydown', (event) => {
        if (event.defaultPrevented || event.isComposing || event.altKey) return;
        const chord = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k';
        if (chord) return fire('Ctrl+K', event);
        // From the filter of a list to the list, whose keys then work.
        const filter = (event.target as HTMLElement | null)?.closest?.('[data-filter]') as HTMLElement | null;
        if (filter && (event.key === 'Enter' || event.key === 'Escape')) {
            event.preventDefault();
            return filter.blur();
        }
        if (event.ctrlKey || event.metaKey || typing(event.target) || document.querySelector('dialog[open]')) return;
        // Enter and Space on a button or a link are the browser's.
        if ((event.key === 'Enter' || event.key === ' ') && (event.target as HTMLElement).closest?.('a, button, summary')) return;
        const pair = first && event.timeStamp - firstAt < PAIR_MS ? `${first} ${event.key}` : '';
        first = '';
        if (pair && fire(pair, event)) return;
        if (event.key === 'g') {
            first = 'g';
            firstAt = event.timeStamp;
            return;
        }
        fire(event.key, event);
    });
}

function fire(keys: string, event: KeyboardEvent): boolean | void {
    const found = active.value.findLast((one) => one.keys === keys);
    if (!found) return false;
    event.preventDefault();
    found.run(event);
    return true;
}
