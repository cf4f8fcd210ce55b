// A swap, watched: each running attempt is a dot that moves from the old version to the new.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { count, get, href, now, Panel, path, plural, post, useResource, type Job, type Live, type Search } from '#kit';
import { left, short, swapWord, type Plugin } from './model';
import type { How } from './swap';

const MOST = 300;
const STAYS_MS = 20_000;
const MOVE_MS = 700;

/** When the latest swap began, how it treats running attempts, and until when it waits for them: as the history tells it, so that everybody sees the same. */
function latestSwap(plugin: Plugin): { how: How; at: number; until: number | null } {
    const entry = plugin.history.findLast((one) => one.type === 'plugin.activated');
    const detail = entry?.detail ?? '';
    const at = entry ? Date.parse(entry.at) : 0;
    const within = /next checkpoint, within (\d+) s/.exec(detail);
    if (detail.includes('next checkpoint')) return { how: 'checkpoint', at, until: within ? at + Number(within[1]) * 1000 : null };
    return { how: detail.includes('stopped') ? 'now' : 'drain', at, until: null };
}

interface RunningNow {
    job_id: string;
    live: Live | null;
}

interface Seen {
    /** The version that each job was on when this page first saw it run. */
    from: Map<string, string>;
    /** Jobs that were on the active one, and then were gone from the running ones. */
    ran: Set<string>;
    moving: boolean;
    over: number | null;
}

export function Moving({ plugin }: { plugin: Plugin }) {
    const remaining = left(plugin);
    const [seen] = useState<Seen>(() => ({ from: new Map(), ran: new Set(), moving: false, over: null }));
    const last = useRef<Job[]>([]);
    const { how, at, until } = latestSwap(plugin);
    const fresh = plugin.versions.length > 1 && now.value - at < STAYS_MS;
    const watched = remaining.length > 0 || fresh || (seen.over !== null && now.value - seen.over < STAYS_MS);
    const body = { plugin: plugin.name, state: ['active'], payload: 'none', sort: 'started_at', order: 'asc', limit: MOST };
    // Before a swap, too: what moves is told from what began on the new version by where it was.
    const found = useResource(watched || plugin.running > 0 ? `moving ${plugin.name}` : null, (signal) => post<Search>('/jobs/search', body, signal), { everyMs: watched ? 600 : 2000, keep: true });
    // Those that are being stopped are told apart, while it lasts.
    const now_ = useResource(watched ? `attempts of ${plugin.name}` : null, (signal) => get<{ attempts: RunningNow[] }>(path(['attempts'], { plugin: plugin.name, limit: MOST }), signal), { everyMs: 600, keep: true });
    const stopping = new Set(now_.data?.attempts.filter((one) => one.live?.stopping_since).map((one) => one.job_id));
    const jobs = found.data?.jobs ?? [];
    const isNew = (job: Job) => job.plugin_version === plugin.active;
    const isTrial = (job: Job) => job.plugin_version === plugin.canary?.version;
    const older = jobs.filter((job) => !isNew(job) && !isTrial(job));
    const newer = jobs.filter(isNew);
    if (found.data && last.current !== jobs) {
        for (const job of jobs) if (!seen.from.has(job.id)) seen.from.set(job.id, job.plugin_version ?? '');
        if (watched) last.current.filter((job) => isNew(job) && !jobs.some((one) => one.id === job.id)).forEach((job) => seen.ran.add(job.id));
        if (remaining.length > 0) [seen.moving, seen.over] = [true, null];
        else if (seen.moving) [seen.moving, seen.over] = [false, Date.now()];
        last.current = jobs;
    }
    const place = useMoves([jobs.map((job) => `${job.id}${isNew(job)}`).join()]);
    if (!watched || !plugin.active || (!found.data && remaining.length === 0)) return null;

    const pinned = older.filter((job) => job.pinned_version);
    const cameOver = (job: Job) => (seen.from.get(job.id) ?? plugin.active) !== plugin.active;
    const came = newer.filter(cameOver);
    const over = remaining.length === 0;
    const stopped = older.filter((job) => stopping.has(job.id)).length;
    const others = older.length - pinned.length - stopped;
    const says = [
        others > 0 && `${count(others)} ${how === 'checkpoint' ? 'run to the next checkpoint' : how === 'now' ? 'stop' : 'finish there'}`,
        stopped > 0 && `${count(stopped)} were asked to stop`,
        pinned.length > 0 && `${count(pinned.length)} stay: the new version does not read their state`,
    ].filter(Boolean);
    const told = [
        came.length > 0 && `${count(came.length)} went on where the old one stopped`,
        newer.length - came.length > 0 && `${count(newer.length - came.length)} began here`,
        seen.ran.size > 0 && `${count(seen.ran.size)} have ended`,
    ].filter(Boolean);
    return (
        <Panel
            title={over ? 'The swap is over: every attempt runs on the active version' : `Swap under way: ${swapWord(how)}`}
            aside={until && !over ? <Until at={until} began={at} /> : <a href={href('/jobs', { q: `plugin:${plugin.name}`, state: 'active' })}>{plural(jobs.length, 'running job')}</a>}
        >
            <div class="swap" ref={place}>
                <div>
                    <p>
                        <span class="mono">{remaining.map((one) => short(one.version)).join(', ') || 'older versions'}</span> <span class="dim">old · {over ? 'none left' : `${count(older.length)} to go`}</span>
                    </p>
                    <Dots jobs={older} of={(job) => (job.pinned_version ? 'held open' : stopping.has(job.id) ? 'retrying' : 'pending')} label={`${older.length} attempts on older versions`} />
                    <p class="dimmer" role="status">
                        {says.join(' · ') || '\u00a0'}
                    </p>
                </div>
                <svg width="40" height="16" viewBox="0 0 40 16" aria-hidden="true" class="swap-arrow">
                    <path d="M0 8h34M28 2l8 6-8 6" />
                </svg>
                <div>
                    <p>
                        <span class="mono">{short(plugin.active)}</span> <span class="dim">new · {plural(newer.length, 'attempt')}</span>
                    </p>
                    <Dots jobs={newer} of={(job) => (cameOver(job) ? 'completed' : 'active')} label={`${newer.length} attempts on the new version`} />
                    <p class="dimmer">{told.join(' · ') || '\u00a0'}</p>
                </div>
            </div>
        </Panel>
    );
}

const Until = ({ at, began }: { at: number; began: number }) => {
    const passed = Math.round((now.value - began) / 1000);
    const whole = Math.round((at - began) / 1000);
    return <>{passed < whole ? `${passed} s of ${whole} s · then the rest is stopped and resumes` : 'the time is up: the rest is stopped and resumes'}</>;
};

const Dots = ({ jobs, of, label }: { jobs: Job[]; of(job: Job): string; label: string }) => (
    <div class="dots" role="img" aria-label={label}>
        {jobs.map((job) => (
            <i key={job.id} data-job={job.id} class={`is-${of(job)}`} title={job.id} />
        ))}
    </div>
);

/** A dot that is drawn in another place glides there from where it was. */
function useMoves(deps: unknown[]) {
    const place = useRef<HTMLDivElement>(null);
    const before = useRef(new Map<string, [number, number]>());
    useLayoutEffect(() => {
        const dots = [...(place.current?.querySelectorAll<HTMLElement>('[data-job]') ?? [])];
        // Seen from the panel, so that scrolling moves nothing.
        const origin = place.current?.getBoundingClientRect();
        const here = new Map(
            dots.map((dot): [string, [number, number]] => {
                const { x, y } = dot.getBoundingClientRect();
                return [dot.dataset.job ?? '', [x - (origin?.x ?? 0), y - (origin?.y ?? 0)]];
            }),
        );
        if (!matchMedia('(prefers-reduced-motion: reduce)').matches) {
            for (const dot of dots) {
                const [from, to] = [before.current.get(dot.dataset.job ?? ''), here.get(dot.dataset.job ?? '')];
                if (!from || !to || Math.abs(from[0] - to[0]) + Math.abs(from[1] - to[1]) < 2) continue;
                dot.animate([{ transform: `translate(${from[0] - to[0]}px, ${from[1] - to[1]}px)` }, { transform: 'none' }], { duration: MOVE_MS, easing: 'cubic-bezier(.4, 0, .2, 1)' });
            }
        }
        before.current = here;
    }, deps);
    return place;
}
