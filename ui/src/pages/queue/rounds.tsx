// A queue that runs in rounds: a bar for each round, the sweep; and the records that handlers keep.
import { useState } from 'preact/hooks';
import { count, Empty, Failed, get, href, JobLink, JsonText, Loading, may, Panel, path, query, setQuery, Table, Time, useResource, type Column } from '#kit';
import { openSweep } from '../rounds/sweep';

interface Round {
    round: number;
    total: number;
    open: number;
    completed: number;
    dead: number;
    cancelled: number;
    waiting: number;
    percent: number;
}

interface Found {
    state: string;
    round: number | null;
    rounds: Round[];
}

const columns: Column<Round>[] = [
    { key: 'round', title: 'Round', width: '70px', cell: (round) => round.round },
    {
        key: 'bar',
        title: 'Done',
        cell: (round) => (
            <span class="bar wide thick" role="img" aria-label={`round ${round.round}: ${Math.floor(round.percent)} % done`}>
                {(['completed', 'dead', 'cancelled'] as const).map((state) => (
                    <i key={state} class={`fill is-${state}`} style={{ width: `${(round[state] / Math.max(1, round.total)) * 100}%` }} />
                ))}
            </span>
        ),
    },
    { key: 'percent', title: '', num: true, width: '64px', cell: (round) => `${Math.floor(round.percent)} %` },
    { key: 'total', title: 'Jobs', num: true, width: '84px', cell: (round) => count(round.total) },
    { key: 'open', title: 'Open', num: true, width: '76px', from: 's', cell: (round) => count(round.open) },
    { key: 'dead', title: 'Dead', num: true, width: '70px', cell: (round) => <span class={round.dead ? 'dead-ink' : 'dimmer'}>{count(round.dead)}</span> },
];

export function Rounds({ name }: { name: string }) {
    const found = useResource(`rounds of ${name}`, (signal) => get<Found>(path(['queues', name, 'rounds']), signal), { everyMs: 2000 });
    if (found.error && !found.data) return <Failed error={found.error} retry={found.reload} />;
    if (!found.data) return <Loading rows={4} />;
    const { rounds, round, state } = found.data;
    const sweep = may('operate') && (
        <button type="button" onClick={() => openSweep(name, found.reload)}>
            Sweep…
        </button>
    );
    return (
        <Panel title="Rounds" aside={<span class="row">{round === null ? state : `round ${round} runs`}{sweep}</span>} flush>
            <Table label="Rounds" columns={columns} rows={rounds} rowKey={(one) => String(one.round)} href={(one) => href(`/queues/${encodeURIComponent(name)}`, { q: `round:${one.round}` })} empty={<Empty title="No round has begun" />} />
        </Panel>
    );
}

interface RecordRow {
    key: string;
    value: unknown;
    mark: string | null;
    job_id: string;
    updated_at: string;
}

const recordColumns: Column<RecordRow>[] = [
    { key: 'key', title: 'Key', cell: (row) => <span class="mono" title={row.key}>{row.key}</span> },
    { key: 'value', title: 'Value', from: 's', cell: (row) => <span class="mono dim">{JSON.stringify(row.value).slice(0, 200)}</span> },
    { key: 'mark', title: 'Mark', width: '120px', from: 'm', cell: (row) => row.mark ?? '' },
    { key: 'job', title: 'Stored by', width: '112px', from: 's', cell: (row) => <JobLink id={row.job_id} /> },
    { key: 'at', title: 'When', num: true, width: '92px', cell: (row) => <Time at={row.updated_at} /> },
];

export function Records({ name }: { name: string }) {
    const marked = query.value.get('marked') === '1';
    const from = query.value.get('from') ?? '';
    const [shown, setShown] = useState<RecordRow | null>(null);
    const load = (signal: AbortSignal) => get<{ records: RecordRow[]; next: string | null }>(path(['queues', name, 'records'], { limit: 100, marked: marked || undefined, from }), signal);
    const found = useResource(`records of ${name} ${marked} ${from}`, load, { keep: true });
    if (found.error) return <Failed error={found.error} retry={found.reload} />;
    if (!found.data) return <Loading rows={4} />;
    return (
        <>
            <div class="filters">
                <label class="check">
                    <input type="checkbox" checked={marked} onChange={() => setQuery({ marked: marked ? null : '1', from: null })} />
                    only those that are marked
                </label>
            </div>
            <Panel label="Records" flush>
                <Table
                    label="Records"
                    columns={[...recordColumns, { key: 'show', title: '', width: '76px', num: true, cell: (row) => <button type="button" onClick={() => setShown(row)}>Show</button> }]}
                    rows={found.data.records}
                    rowKey={(row) => row.key}
                    empty={<Empty title={marked ? 'No record is marked' : 'No handler has stored a record'}>Handlers keep records under a key, and mark those that changed, so that a sweep does only what is needed.</Empty>}
                    foot={found.data.next && <div class="table-foot"><button type="button" onClick={() => setQuery({ from: found.data?.next }, { push: true })}>Further records</button></div>}
                />
            </Panel>
            {shown && <Panel title={<h2 class="mono">{shown.key}</h2>}><JsonText text={JSON.stringify(shown.value)} label="the record" /></Panel>}
        </>
    );
}
