// Events as they happen: a tail with filters. Too many to read are sampled, and the page says so.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { addShortcuts, clockTime, count, Empty, JobLink, JsonText, live, PageHead, Panel, query, QueueLink, rate, setQuery, shortId, StatePill, Table, times, type Column } from '#kit';
import { follow, start, type Seen, type State } from './tail';

/** Groups of types, as people look for them. */
const GROUPS: Record<string, string[]> = {
    starts: ['enqueued', 'pending', 'started', 'approved', 'continued'],
    ends: ['completed', 'cancelled', 'rejected', 'deleted'],
    failures: ['failed', 'dead'],
    progress: ['progress', 'checkpoint'],
    waits: ['held', 'blocked', 'scheduled', 'moved', 'edited', 'cancelling', 'removing'],
    queues: ['queue.paused', 'queue.resumed', 'queue.changed', 'queue.removed'],
    schedules: ['schedule.created', 'schedule.changed', 'schedule.paused', 'schedule.resumed', 'schedule.ran', 'schedule.skipped', 'schedule.removed'],
    bulk: ['bulk.started', 'bulk.completed', 'bulk.failed', 'bulk.cancelled'],
    workers: ['worker.connected', 'worker.drained', 'worker.resumed'],
    rounds: ['round.started', 'round.ended'],
    plugins: ['plugin.uploaded', 'plugin.activated', 'plugin.manifest_set', 'plugin.granted', 'plugin.canary_started', 'plugin.canary_stopped', 'plugin.promoted', 'plugin.rolled_back', 'plugin.version_removed', 'plugin.removed'],
};

/** The colour of an event is that of the state that it leads to. */
const COLOUR: Record<string, string> = {
    enqueued: 'pending', pending: 'pending', approved: 'pending', continued: 'pending', started: 'active', progress: 'active', checkpoint: 'active', completed: 'completed', failed: 'retrying', dead: 'dead', rejected: 'dead',
    held: 'held', blocked: 'blocked', cancelled: 'cancelled', cancelling: 'cancelled', deleted: 'cancelled', removing: 'cancelled', moved: 'scheduled', edited: 'scheduled',
    'queue.paused': 'held', 'queue.resumed': 'active', 'queue.removed': 'cancelled', 'schedule.ran': 'active', 'schedule.skipped': 'retrying', 'schedule.paused': 'held', 'schedule.removed': 'cancelled',
    'bulk.started': 'active', 'bulk.completed': 'completed', 'bulk.failed': 'dead', 'bulk.cancelled': 'cancelled', 'worker.connected': 'active', 'worker.drained': 'held', 'worker.resumed': 'active',
};

const columns = (open: (row: Seen) => void): Column<Seen>[] => [
    { key: 'at', title: 'Time', width: '122px', cell: (row) => <At at={row.at} /> },
    { key: 'type', title: 'Event', width: 'clamp(116px, 13vw, 170px)', cell: (row) => <StatePill of={COLOUR[row.type] ?? 'scheduled'}>{row.type}</StatePill> },
    { key: 'job', title: 'About', width: 'clamp(108px, 10vw, 140px)', cell: (row) => (row.job ? <JobLink id={row.job} /> : <span class="dim" title={row.about ?? ''}>{row.about?.startsWith('bulk_') ? shortId(row.about) : row.about}</span>) },
    { key: 'queue', title: 'Queue', width: '150px', from: 's', cell: (row) => (row.queue ? <QueueLink name={row.queue} /> : null) },
    {
        key: 'data',
        title: 'Data',
        from: 's',
        cell: (row) => (
            <button type="button" class="quiet small mono clip" title="Show the whole event" onClick={() => open(row)}>
                {shortened(row.text)}
            </button>
        ),
    },
];

/** To the millisecond: in a tail, “0 s ago” says nothing. */
const At = ({ at }: { at: string }) => <time dateTime={at}>{clockTime(new Date(at), times.value === 'utc', true)}</time>;

const DATA_CHARS = 160;
/** The part that is not in the other columns. */
function shortened(text: string): string {
    const at = text.indexOf('"data":');
    const data = at < 0 ? text : text.slice(at + 7, -1);
    return data === '{}' || data === 'null' ? 'show' : data.length > DATA_CHARS ? `${data.slice(0, DATA_CHARS)}…` : data;
}

export default function Events() {
    const [queue, group, job, text] = ['queue', 'of', 'job', 'q'].map((name) => query.value.get(name) ?? '') as [string, string, string, string];
    const [state, setState] = useState<State>(start);
    const [paused, setPaused] = useState(false);
    const [opened, open] = useState<Seen | null>(null);
    const shownColumns = useMemo(() => columns(open), []);

    useEffect(() => {
        if (paused) return;
        const wanted = text.toLowerCase();
        setState(start());
        const filter = { queues: queue, job_ids: job, types: (GROUPS[group] ?? []).join(',') };
        return follow(filter, (data) => wanted === '' || data.toLowerCase().includes(wanted), setState);
    }, [queue, group, job, text, paused]);
    useEffect(() => addShortcuts([{ keys: 's', does: 'stop or go on with events', run: () => setPaused((before) => !before) }]), []);

    return (
        <>
            <PageHead
                title="Events"
                about={<Link state={state} paused={paused} />}
                actions={
                    <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
                        {paused ? 'Go on' : 'Stop'}
                    </button>
                }
            />
            <div class="filters">
                <input type="search" data-filter class="grow" aria-label="Only events with this text" placeholder="Only with this text" value={text} onChange={(event) => setQuery({ q: event.currentTarget.value })} />
                <select aria-label="Queue" value={queue} onChange={(event) => setQuery({ queue: event.currentTarget.value })}>
                    <option value="">all queues</option>
                    {[...new Set([queue, ...Object.keys(live.queues.value).sort()])].filter(Boolean).map((name) => (
                        <option key={name} value={name}>
                            {name}
                        </option>
                    ))}
                </select>
                <input aria-label="Only of this job" placeholder="job_…" class="mono" value={job} onChange={(event) => setQuery({ job: event.currentTarget.value.trim() })} />
                <div class="chips" role="group" aria-label="Kinds of events">
                    {Object.keys(GROUPS).map((name) => (
                        <button key={name} type="button" class="chip" aria-pressed={group === name} onClick={() => setQuery({ of: group === name ? null : name })}>
                            {name}
                        </button>
                    ))}
                </div>
            </div>
            <Notice state={state} paused={paused} />
            <div class={opened ? 'split' : ''}>
                <Panel label="Events" flush>
                    <Table
                        label="Events"
                        columns={shownColumns}
                        rows={state.rows}
                        rowKey={(row) => String(row.n)}
                        empty={
                            <Empty title={paused ? 'Stopped' : 'Nothing has happened yet'} command={queue || group || job || text ? undefined : 'windlass enqueue hello \'{"to": 1}\''}>
                                What happens from now on shows here as it is stored{queue || group || job || text ? ', if it passes the filter' : ''}.
                            </Empty>
                        }
                    />
                </Panel>
                {opened && (
                    <Panel
                        title={opened.type}
                        aside={
                            <button type="button" class="quiet" aria-label="Close the event" onClick={() => open(null)}>
                                ×
                            </button>
                        }
                    >
                        <JsonText text={opened.text} label="The event" />
                    </Panel>
                )}
            </div>
        </>
    );
}

function Link({ state, paused }: { state: State; paused: boolean }) {
    if (paused) return <StatePill of="retrying">stopped</StatePill>;
    if (state.link === 'lost') return <StatePill of="dead">no connection, trying again</StatePill>;
    if (state.link === 'connecting') return <>connecting</>;
    return <StatePill of="completed">{rate(state.perSecond)} per second</StatePill>;
}

/** Says what is not shown: a list that leaves something out must not look complete. */
function Notice({ state, paused }: { state: State; paused: boolean }) {
    const top = [...state.types].sort((a, b) => b[1] - a[1]).slice(0, 6);
    return (
        <div class="events-notice">
            <p class="dim">
                {count(state.arrived)} since {paused ? 'it began' : 'this page was opened'}
                {top.length > 0 && `: ${top.map(([type, n]) => `${count(n)} ${type}`).join(', ')}`}
            </p>
            <p role="status" class={state.left > 0 ? 'warn-line' : 'sr'}>
                {state.left > 0 ? `Too many to read: this is a sample, and ${Math.round((state.left / state.arrived) * 100)} % are left out. A filter shows more of what you look for.` : 'All events are shown.'}
            </p>
            {state.left > 0 && <p class="dim">Left out: {count(state.left)}</p>}
            {state.why && <p class="warn-line">{state.why}</p>}
        </div>
    );
}
