// Rounds: queues that run level by level, how far each round is, which queue waits for which, and what their handlers recorded.
import { useEffect } from 'preact/hooks';
import { count, Empty, Facts, Failed, get, href, live, Loading, may, PageHead, Panel, path, plural, query, QueueLink, setTitle, StatePill, Table, useResource, type Column, type QueueRow } from '#kit';
import { Lead, type Gate } from './lead';
import { Records } from './records';
import { openSweep } from './sweep';

export interface Now {
    state: 'idle' | 'waiting' | 'running' | 'completed';
    round: number | null;
    waits_for?: string;
}

interface Round {
    round: number;
    total: number;
    open: number;
    completed: number;
    dead: number;
    cancelled: number;
    /** Open jobs that wait only for the round. */
    waiting: number;
    percent: number;
}

const STATE_COLOUR = { idle: 'blocked', waiting: 'scheduled', running: 'active', completed: 'completed' } as const;
const nowOf = (queue: QueueRow) => queue.rounds as Now | undefined;
const roundsHref = (name: string) => href('/rounds', { queue: name });

export default function Rounds() {
    const name = query.value.get('queue');
    useEffect(() => setTitle(name ? `Rounds of ${name}` : 'Rounds'), [name]);
    return name ? <Of key={name} name={name} /> : <All />;
}

export const NowPill = ({ now }: { now: Now }) => <StatePill of={STATE_COLOUR[now.state] ?? 'pending'}>{now.state}</StatePill>;

const columns: Column<QueueRow>[] = [
    { key: 'name', title: 'Queue', cell: (queue) => <a href={roundsHref(queue.name)} title={queue.name}>{queue.name}</a> },
    { key: 'state', title: 'State', width: '110px', cell: (queue) => <NowPill now={nowOf(queue) as Now} /> },
    { key: 'round', title: 'Round', num: true, width: '70px', cell: (queue) => nowOf(queue)?.round ?? '–' },
    { key: 'open', title: 'Open', num: true, width: '80px', cell: (queue) => count(queue.open) },
    { key: 'completed', title: 'Completed', num: true, width: '100px', from: 's', cell: (queue) => count(queue.completed) },
    { key: 'dead', title: 'Dead', num: true, width: '70px', from: 's', cell: (queue) => <span class={queue.dead ? 'dead-ink' : 'dimmer'}>{count(queue.dead)}</span> },
    { key: 'waits', title: 'Waits for', from: 'm', cell: (queue) => <span class="dim" title={nowOf(queue)?.waits_for}>{nowOf(queue)?.waits_for ?? ''}</span> },
];

function All() {
    const queues = Object.values(live.queues.value).filter((queue) => nowOf(queue)).sort((a, b) => a.name.localeCompare(b.name));
    return (
        <>
            <PageHead title="Rounds" about={live.known.value ? plural(queues.length, 'queue') : undefined} />
            <Panel label="Queues with rounds" flush>
                {!live.known.value ? (
                    <Loading />
                ) : (
                    <Table
                        label="Queues with rounds"
                        columns={columns}
                        rows={queues}
                        rowKey={(queue) => queue.name}
                        href={(queue) => roundsHref(queue.name)}
                        empty={
                            <Empty title="No queue has rounds" command="windlass queue set walk.src --rounds on">
                                A queue with rounds runs its jobs level by level: the children of a job come after all jobs of its own level. It suits trees that are too large for memory, such as folders and sites.
                            </Empty>
                        }
                    />
                )}
            </Panel>
        </>
    );
}

const PAGE = 50;

function Of({ name }: { name: string }) {
    const from = Number(query.value.get('from') ?? 0) || 0;
    const found = useResource(`rounds ${name} ${from}`, (signal) => get<Now & { rounds: Round[]; next?: number }>(path(['queues', name, 'rounds'], { from, limit: PAGE }), signal), { everyMs: 1000, keep: true });
    const queue = useResource(`queue of rounds ${name}`, (signal) => get<QueueRow & { settings: { gate: Gate | null } }>(path(['queues', name]), signal), { everyMs: 5000 });
    const crumbs = [{ text: 'Rounds', href: href('/rounds') }];
    const data = found.data;
    if (!data) {
        return (
            <>
                <PageHead title={name} crumbs={crumbs} />
                {found.error ? <Panel label="Rounds"><Failed error={found.error} retry={found.reload} /></Panel> : <Loading rows={6} />}
            </>
        );
    }
    const gates = gatesAround(name, queue.data?.settings.gate ?? null);
    return (
        <>
            <PageHead
                title={<>Rounds of {name}</>}
                crumbs={crumbs}
                about={<NowPill now={data} />}
                actions={
                    may('operate') && (
                        <button type="button" onClick={() => openSweep(name, found.reload)}>
                            Sweep…
                        </button>
                    )
                }
            />
            <div class="split">
                <div>
                    <Panel title="Rounds" aside={data.round !== null ? `now round ${data.round}` : undefined}>
                        {data.rounds.length === 0 ? <Empty title="No job has been enqueued yet">Its first jobs are round 0.</Empty> : <Bars rounds={data.rounds} now={data} name={name} />}
                        {(data.next !== undefined || from > 0) && (
                            <p class="row">
                                {from > 0 && <a class="link" href={href('/rounds', { queue: name })}>from round 0</a>}
                                {data.next !== undefined && <a class="link" href={href('/rounds', { queue: name, from: data.next })}>from round {data.next}</a>}
                            </p>
                        )}
                    </Panel>
                    <Records name={name} />
                </div>
                <div>
                    <Panel title="Now">
                        <Facts
                            of={[
                                ['Queue', <QueueLink name={name} />],
                                ['State', <NowPill now={data} />],
                                ['Round', data.round === null ? 'none' : count(data.round)],
                                data.waits_for && ['Waits for', data.waits_for],
                            ]}
                        />
                    </Panel>
                    {gates.map((gate) => (
                        <Lead key={`${gate.behind} ${gate.ahead}`} {...gate} />
                    ))}
                    {queue.error && <Failed error={queue.error} />}
                </div>
            </div>
        </>
    );
}

/** The gate of this queue; those of others that name it are in their own pages. */
const gatesAround = (name: string, gate: Gate | null) => (gate ? [{ behind: name, ahead: gate.queue, gate }] : []);

function Bars({ rounds, now, name }: { rounds: Round[]; now: Now; name: string }) {
    const largest = Math.max(1, ...rounds.map((round) => round.total));
    return (
        <ol class="rounds" aria-label="Rounds">
            {rounds.map((round) => {
                const parts = [
                    { state: 'completed', n: round.completed },
                    { state: 'dead', n: round.dead },
                    { state: 'cancelled', n: round.cancelled },
                    { state: 'active', n: round.open - round.waiting },
                    { state: 'blocked', n: round.waiting },
                ].filter((part) => part.n > 0);
                const here = now.round === round.round && now.state !== 'completed';
                const said = parts.map((part) => `${count(part.n)} ${part.state === 'active' ? 'open' : part.state === 'blocked' ? 'waiting for the round' : part.state}`).join(', ');
                return (
                    <li key={round.round} class={here ? 'here' : ''}>
                        <a class="num" href={href('/jobs', { q: `queue:${name} round:${round.round}` })} title={`The jobs of round ${round.round}`}>
                            round {round.round}
                        </a>
                        {/* As long as its share of the largest round, so that the shape of the tree shows. */}
                        <div class="bar thick" style={{ width: `${Math.max(2, (round.total / largest) * 100)}%` }} role="img" aria-label={`Round ${round.round}: ${said || 'no jobs'}`}>
                            {parts.map((part) => (
                                <i key={part.state} class={`fill is-${part.state}`} style={{ width: `${(part.n / round.total) * 100}%` }} />
                            ))}
                        </div>
                        <span class="num">{Math.floor(round.percent)} %</span>
                        <span class="dim">
                            {here && <strong>{now.state === 'waiting' ? 'waits for its gate · ' : 'running · '}</strong>}
                            {said}
                        </span>
                    </li>
                );
            })}
        </ol>
    );
}
