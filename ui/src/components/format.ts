// Numbers, sizes, spans and times as people read them.
import { signal } from '@preact/signals';

export { clockTime, dateTime } from './time';

const grouped = new Intl.NumberFormat('en-US');
export const count = (value: number) => grouped.format(value);

/** `0.4`, `12`, `1,204`: three figures that matter. */
export function rate(value: number): string {
    if (value === 0) return '0';
    if (value < 0.1) return '< 0.1';
    return value < 10 ? value.toFixed(1) : grouped.format(Math.round(value));
}

export function bytes(value: number): string {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let at = 0;
    while (value >= 1024 && at < units.length - 1) {
        value /= 1024;
        at += 1;
    }
    return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1).replace(/\.0$/, '')} ${units[at]}`;
}

/** `84 ms`, `1.2 s`, `3 m 12 s`, `2 h 5 m`, `6 d 1 h`. */
export function span(ms: number): string {
    if (ms < 0) ms = 0;
    if (ms < 1) return '< 1 ms';
    if (ms < 1000) return `${Math.round(ms)} ms`;
    if (ms < 10_000) return `${(ms / 1000).toFixed(1).replace(/\.0$/, '')} s`;
    const seconds = Math.round(ms / 1000);
    if (seconds < 60) return `${seconds} s`;
    const two = (big: number, unit: string, small: number, smaller: string) => (small ? `${big} ${unit} ${small} ${smaller}` : `${big} ${unit}`);
    if (seconds < 3600) return two(Math.floor(seconds / 60), 'm', seconds % 60, 's');
    const minutes = Math.round(seconds / 60);
    if (minutes < 48 * 60) return two(Math.floor(minutes / 60), 'h', minutes % 60, 'm');
    const hours = Math.round(minutes / 60);
    return two(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

/** `12 s`, `4 m`, `3 h`, `6 d`: one figure, for lists. */
export function roughly(ms: number): string {
    const seconds = Math.max(0, Math.round(ms / 1000));
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
    if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} d`;
}

export const percent = (part: number, whole: number) => (whole > 0 ? (part / whole) * 100 : 0);

/** `1 job`, `12 jobs`. */
export const plural = (n: number, one: string, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`;

/** The present, to the second; it stands still while nobody looks. */
export const now = signal(Date.now());
setInterval(() => {
    if (!document.hidden) now.value = Date.now();
}, 1000);

/** `job_01M7HE79N7YRPPE03Y6NMZGWT4` → `…NMZGWT4`, for where the whole id is a link away. */
export const shortId = (id: string) => (id.length > 16 ? `${id.slice(0, id.indexOf('_') + 1)}…${id.slice(-7)}` : id);
export const shortDigest = (digest: string) => digest.slice(0, 6);
