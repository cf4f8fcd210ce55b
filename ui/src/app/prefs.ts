// What a person prefers, kept in this browser: never a key, never data.
import { effect, signal, type Signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';
export type Times = 'relative' | 'local' | 'utc';

function kept<T extends string>(name: string, otherwise: T, allowed: readonly T[]): Signal<T> {
    let found: T = otherwise;
    try {
        const text = localStorage.getItem(`windlass.${name}`) as T | null;
        if (text && allowed.includes(text)) found = text;
    } catch {
        // A browser may forbid it; then the choice lasts as long as the tab.
    }
    const value = signal<T>(found);
    effect(() => {
        try {
            localStorage.setItem(`windlass.${name}`, value.value);
        } catch {
            // As above.
        }
    });
    return value;
}

export const theme = kept<Theme>('theme', 'system', ['system', 'light', 'dark']);
export const times = kept<Times>('times', 'relative', ['relative', 'local', 'utc']);

const prefersDark = matchMedia('(prefers-color-scheme: dark)');
/** Whether it is dark now. Charts read it, because a canvas does not follow the style sheet. */
export const dark = signal(prefersDark.matches);

function paint() {
    dark.value = theme.value === 'dark' || (theme.value === 'system' && prefersDark.matches);
    document.documentElement.dataset.theme = dark.value ? 'dark' : 'light';
}
prefersDark.addEventListener('change', paint);
effect(paint);
