// Reads something from the server for as long as a component shows it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { useSignalEffect } from '@preact/signals';
import { ApiError } from '../api/client';
import { beat, link, paused, reconnected } from './live';

export interface Resource<T> {
    data: T | undefined;
    error: ApiError | Error | undefined;
    /** The first read has not ended. */
    loading: boolean;
    reload(): void;
}

interface Options {
    /** Reads again when the pulse says that something changed, but not more often than this. Absent: only on `reload`. */
    everyMs?: number;
    /** Keeps what an earlier key showed until the new answer is there, as a list does when its filter changes. */
    keep?: boolean;
}

/** What may be read again is not older than this, even if nothing says that it changed. */
const IDLE_MS = 10_000;

/**
 * `key` says what is read: another one reads anew. The answer to an older key is dropped.
 * While the page is hidden or paused nothing is read again.
 */
export function useResource<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>, options: Options = {}): Resource<T> {
    const [state, set] = useState<{ key: string | null; data?: T; error?: Error }>({ key: null });
    const [turn, setTurn] = useState(0);
    const loading = useRef<AbortController | null>(null);
    const last = useRef(0);
    const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
    const latest = useRef(load);
    latest.current = load;

    useEffect(() => {
        if (key === null) return;
        const mine = new AbortController();
        loading.current = mine;
        latest.current(mine.signal).then(
            (data) => {
                if (mine.signal.aborted) return;
                last.current = performance.now();
                loading.current = null;
                set({ key, data });
            },
            (error) => {
                if (mine.signal.aborted) return;
                last.current = performance.now();
                loading.current = null;
                // What was there is still the best that is known when the server is away.
                set((before) => (error instanceof ApiError && error.unreachable && before.key === key ? { ...before, error } : { key, error }));
            },
        );
        return () => {
            mine.abort();
            loading.current = null;
        };
    }, [key, turn]);

    useEffect(() => () => clearTimeout(timer.current), [key]);

    const again = () => {
        clearTimeout(timer.current);
        timer.current = undefined;
        setTurn((turn) => turn + 1);
    };
    const every = options.everyMs;
    useSignalEffect(() => {
        if (beat.value === 0 || every === undefined || paused.value || timer.current !== undefined) return;
        const wait = Math.max(0, every - (performance.now() - last.current));
        timer.current = setTimeout(() => {
            timer.current = undefined;
            // One at a time: a slow search is not begun anew before it ends.
            if (!document.hidden && !loading.current) again();
        }, wait);
    });
    // The pulse does not tell of everything: a key that somebody else makes, or a version, is seen a little later.
    useEffect(() => {
        if (every === undefined) return;
        const idle = setInterval(() => {
            if (performance.now() - last.current > IDLE_MS && !document.hidden && !loading.current && !paused.peek() && link.peek() === 'live') again();
        }, IDLE_MS / 4);
        return () => clearInterval(idle);
    }, [every]);
    useSignalEffect(() => {
        if (reconnected.value > 0) again();
    });

    const mine = state.key === key;
    return {
        data: mine || options.keep ? state.data : undefined,
        error: mine ? state.error : undefined,
        loading: key !== null && !mine,
        reload: again,
    };
}
