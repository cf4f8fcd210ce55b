// The log, live: filtered by level and text, and only the lines in view are in the page. After a cut it goes on with the line after the
// last one, so that none is missing and none comes twice.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError, clockTime, count, get, headers, live, path, plural, query, readEvents, setQuery, times, type WholeJob } from '#kit';

interface Line {
    n: number;
    at: string;
    attempt: number;
    level: string;
    text: string;
}

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];
const PAGE = 1000;
/** More lines than anybody reads; the oldest go first. The whole log is a command away. */
const KEPT = 20_000;
const LINE_PX = 18;
const AGAIN_MS = 700;
/** Lines that arrive together are drawn together. */
const DRAW_MS = 120;

/** The lines so far. The stream is open only while the page is seen, so that hidden tabs hold no connection. */
function useLog(id: string, ended: boolean): { lines: Line[]; dropped: number; following: boolean; wrong: string } {
    const [state, set] = useState<{ lines: Line[]; dropped: number }>({ lines: [], dropped: 0 });
    const [following, setFollowing] = useState(false);
    const [wrong, setWrong] = useState('');
    useEffect(() => {
        let gone = false;
        let next = 0;
        let waiting: Line[] = [];
        let abort: AbortController | null = null;
        let drawing: ReturnType<typeof setTimeout> | undefined;
        const draw = () => {
            drawing = undefined;
            if (gone || live.paused.peek() || waiting.length === 0) return;
            const news = waiting;
            waiting = [];
            set((before) => {
                const lines = [...before.lines, ...news];
                const over = Math.max(0, lines.length - KEPT);
                return { lines: over ? lines.slice(over) : lines, dropped: before.dropped + over };
            });
        };
        const add = (line: Line) => {
            // What was sent before a cut is sent again by none, but a retried job's log may be read from further back.
            if (line.n < next) return;
            next = line.n + 1;
            waiting.push(line);
            drawing ??= setTimeout(draw, DRAW_MS);
        };
        const pages = async (signal: AbortSignal) => {
            for (;;) {
                const page = await get<{ lines: Line[]; next: number }>(path(['jobs', id, 'logs'], { from: next, limit: PAGE }), signal);
                page.lines.forEach(add);
                if (page.lines.length < PAGE) return;
            }
        };
        const follow = async (signal: AbortSignal) => {
            const response = await fetch(`/api/v1${path(['jobs', id, 'logs'], { follow: true, from: next })}`, { headers: headers(false), signal, cache: 'no-store' });
            if (!response.ok || !response.body) throw new ApiError(response.status, '', 'the log cannot be followed');
            setFollowing(true);
            await readEvents(response.body, (event) => {
                if (event.event !== 'log') return;
                const data = JSON.parse(event.data) as { at: string; data: Omit<Line, 'at'> & { at?: string } };
                add({ ...data.data, at: data.data.at ?? data.at });
            });
        };
        const run = async () => {
            while (!gone) {
                if (document.hidden) {
                    await new Promise((done) => document.addEventListener('visibilitychange', done, { once: true }));
                    continue;
                }
                abort = new AbortController();
                const hide = () => document.hidden && abort?.abort();
                document.addEventListener('visibilitychange', hide);
                try {
                    await pages(abort.signal);
                    setWrong('');
                    if (ended) return;
                    await follow(abort.signal);
                } catch (error) {
                    if (error instanceof ApiError && !error.unreachable) setWrong(error.message);
                } finally {
                    document.removeEventListener('visibilitychange', hide);
                }
                if (!gone) setFollowing(false);
                await new Promise((done) => setTimeout(done, AGAIN_MS));
            }
        };
        set({ lines: [], dropped: 0 });
        void run();
        const resume = live.paused.subscribe((paused) => {
            if (!paused) draw();
        });
        return () => {
            gone = true;
            resume();
            clearTimeout(drawing);
            abort?.abort();
        };
    }, [id, ended]);
    return { ...state, following, wrong };
}

export function Log({ job, ended }: { job: WholeJob; ended: boolean }) {
    const { lines, dropped, following, wrong } = useLog(job.id, ended);
    const level = query.value.get('level') ?? '';
    const text = (query.value.get('log') ?? '').toLowerCase();
    const shown = useMemo(() => {
        const least = LEVELS.indexOf(level);
        return lines.filter((line) => (least < 0 || LEVELS.indexOf(line.level) >= least) && (!text || line.text.toLowerCase().includes(text)));
    }, [lines, level, text]);
    return (
        <div>
            <div class="log-tools">
                <label>
                    <span class="sr">Level</span>
                    <select value={level} onChange={(event) => setQuery({ level: event.currentTarget.value })}>
                        <option value="">all levels</option>
                        {LEVELS.slice(1).map((one) => (
                            <option key={one} value={one}>
                                {one} and above
                            </option>
                        ))}
                    </select>
                </label>
                <input type="search" class="grow" data-filter aria-label="Filter the log" placeholder="Text in the log" value={query.value.get('log') ?? ''} onInput={(event) => setQuery({ log: event.currentTarget.value })} />
                <span class="dim">
                    {shown.length === lines.length ? plural(lines.length, 'line') : `${count(shown.length)} of ${count(lines.length)}`}
                    {dropped > 0 && `, ${count(dropped)} older left out`}
                    {following ? ' · live' : ''}
                </span>
            </div>
            {wrong && <p class="wrong-line log-tools">{wrong}</p>}
            <Lines lines={shown} several={new Set(lines.map((line) => line.attempt)).size > 1} none={lines.length ? 'No line fits.' : ended || job.plugin ? 'Nothing was logged.' : 'Nothing is logged so far. Handlers in the sandbox log here; workers outside keep logs of their own.'} />
        </div>
    );
}

/** A window on the lines; at the end it stays at the end. */
function Lines({ lines, several, none }: { lines: Line[]; several: boolean; none: string }) {
    const place = useRef<HTMLDivElement>(null);
    const atEnd = useRef(true);
    const [top, setTop] = useState(0);
    useEffect(() => {
        const box = place.current;
        if (box && atEnd.current) box.scrollTop = box.scrollHeight;
    }, [lines]);
    const height = Math.min(420, Math.max(60, lines.length * LINE_PX + 16));
    const first = Math.max(0, Math.floor(top / LINE_PX) - 20);
    const last = Math.min(lines.length, Math.ceil((top + height) / LINE_PX) + 20);
    const utc = times.value === 'utc';
    const scroll = () => {
        const box = place.current;
        if (!box) return;
        atEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < LINE_PX * 2;
        setTop(box.scrollTop);
    };
    if (lines.length === 0) return <p class="log-none dim">{none}</p>;
    return (
        <div class="log" ref={place} onScroll={scroll} style={{ height: `${height}px` }} tabIndex={0} role="log" aria-live="off" aria-label="Log">
            <div style={{ height: `${lines.length * LINE_PX}px` }}>
                <div class="log-lines" style={{ transform: `translateY(${first * LINE_PX}px)` }}>
                    {lines.slice(first, last).map((line) => (
                        <div key={line.n} class={`log-line level-${line.level}`} data-text={line.text.slice(0, 200)} title={line.text.length > 200 ? line.text.slice(0, 2000) : undefined}>
                            <span class="dimmer">{clockTime(new Date(line.at), utc, true)}</span> {several && <span class="dimmer">{line.attempt} </span>}
                            {line.level !== 'info' && <b>{line.level} </b>}
                            {line.text.length > 4000 ? line.text.slice(0, 4000) + '…' : line.text}
                        </div>
                    ))}
                </div>
            </div>
        </div>
    );
}
