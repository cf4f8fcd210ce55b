// A gate: how far one queue is ahead of another, how far it has to be, and how far it may get.
import { get, Panel, path, plural, QueueLink, useResource } from '#kit';

export interface Gate {
    queue: string;
    lead: number;
    max_lead: number | null;
}

interface Now {
    state: string;
    round: number | null;
}

/** A queue that has completed is ahead of everything; one that never had a job is at round 0. */
const place = (now: Now | undefined) => (now ? (now.state === 'completed' ? Infinity : (now.round ?? 0)) : null);

export function Lead({ behind, ahead, gate }: { behind: string; ahead: string; gate: Gate }) {
    const read = (name: string) => (signal: AbortSignal) => get<Now>(path(['queues', name, 'rounds'], { limit: 1 }), signal);
    const one = useResource(`lead ${behind}`, read(behind), { everyMs: 1000, keep: true });
    const other = useResource(`lead ${ahead}`, read(ahead), { everyMs: 1000, keep: true });
    const [from, to] = [place(one.data), place(other.data)];
    return (
        <Panel title="Gate">
            <p>
                <QueueLink name={behind} /> stays {plural(gate.lead, 'round')} behind <QueueLink name={ahead} />
                {gate.max_lead !== null && <>, which gets at most {plural(gate.max_lead, 'round')} ahead</>}.
            </p>
            {from !== null && to !== null && <Gap from={from} to={to} gate={gate} ahead={ahead} />}
        </Panel>
    );
}

function Gap({ from, to, gate, ahead }: { from: number; to: number; gate: Gate; ahead: string }) {
    if (to === Infinity) return <p class="dim">{ahead} has completed, so the gate is open.</p>;
    if (from === Infinity) return <p class="dim">This queue has completed.</p>;
    const gap = to - from;
    const most = Math.max(gate.max_lead ?? 0, gate.lead, gap) || 1;
    const open = gap >= gate.lead;
    return (
        <>
            <div class="lead" role="meter" aria-label={`rounds that ${ahead} is ahead`} aria-valuemin={0} aria-valuemax={most} aria-valuenow={Math.max(0, gap)}>
                <i class={`fill is-${open ? 'active' : 'scheduled'}`} style={{ width: `${(Math.max(0, gap) / most) * 100}%` }} />
                <b style={{ left: `${(gate.lead / most) * 100}%` }} title={`needed: ${gate.lead}`} />
            </div>
            <p class="dim">
                {gap} ahead, {gate.lead} needed{gate.max_lead === null ? '' : `, ${gate.max_lead} at most`}. {open ? 'The gate is open.' : 'This queue waits.'}
            </p>
        </>
    );
}
