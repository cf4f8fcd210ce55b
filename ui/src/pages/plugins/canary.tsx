// A canary: a version on trial with a share of the new attempts, how it does against the active one, and the verdict.
import { useState } from 'preact/hooks';
import { ActionButton, bytes, count, Field, FormDialog, path, percent, Panel, show, span, Time, type Action } from '#kit';
import { short, type Dist, type Figures, type Plugin, type Version } from './model';

export const openCanary = (plugin: Plugin, version: Version, after: () => void) => show((close) => <Start plugin={plugin} version={version} close={close} after={after} />);

const within = (text: string, least: number, most: number) => {
    const n = Number(text);
    return text.trim() !== '' && n >= least && n <= most ? n : null;
};

function Start({ plugin, version, close, after }: { plugin: Plugin; version: Version; close(): void; after(): void }) {
    const [share, setShare] = useState('10');
    const [rate, setRate] = useState('20');
    const [least, setLeast] = useState('20');
    const [promote, setPromote] = useState('');
    const [s, r, l] = [within(share, 1, 100), within(rate, 0, 100), within(least, 1, 1e6)];
    const p = promote.trim() === '' ? undefined : within(promote, l ?? 1, 1e6);
    const to = short(version.version);
    const ready = s !== null && r !== null && l !== null && p !== null;
    const action: Action | null = ready
        ? {
              label: 'Start the canary',
              does: `${s} of every 100 new attempts of ${plugin.name} run on ${to}. If more than ${r} % of them fail, over at least ${l}, it is rolled back by itself; ${p ? `after ${count(p)} within that it becomes active.` : 'it stays a canary until you promote or abort it.'}`,
              done: `${to} is on trial`,
              needs: 'deploy',
              method: 'POST',
              path: path(['plugins', plugin.name, 'canary']),
              body: { version: version.version, share: s, max_failure_rate: r / 100, min_attempts: l, ...(p ? { promote_after: p } : {}) },
              command: ['plugin', 'canary', plugin.name, to, '--share', share, '--max-failure-rate', String(r / 100), '--min-attempts', least, ...(p ? ['--promote-after', promote] : [])],
          }
        : null;
    return (
        <FormDialog title={`Try ${to} on a share`} action={action} why={`A share of 1 to 100, a rate of 0 to 100 and numbers of attempts${p === null ? '; it cannot become active before it is judged' : ''}.`} close={close} after={after}>
            <div class="pair">
                <Field label="Share of new attempts, in %" type="number" min={1} max={100} value={share} set={setShare} autofocus />
                <Field label="Roll back above, % failed" type="number" min={0} max={100} step="any" value={rate} set={setRate} />
                <Field label="Judge after so many attempts" type="number" min={1} value={least} set={setLeast} />
                <Field label="Active after so many" type="number" min={1} value={promote} set={setPromote} placeholder="never by itself" />
            </div>
            <p class="dim">An attempt that fails on the canary does not count for its job, which runs again on the active version.</p>
            {plugin.canary && <p class="warn-line">The canary {short(plugin.canary.version)} ends, and this one takes its place.</p>}
        </FormDialog>
    );
}

const ending = (plugin: Plugin, promote: boolean): Action => {
    const trial = short(plugin.canary?.version ?? '');
    return {
        label: promote ? 'Promote' : 'Abort',
        does: promote ? `${trial} becomes the active version of ${plugin.name}. Running attempts finish on their version.` : `No more attempts start on ${trial}; those that run there finish. It stays stored.`,
        done: promote ? `${trial} is active` : `The canary ${trial} has ended`,
        needs: 'deploy',
        method: promote ? 'POST' : 'DELETE',
        path: promote ? path(['plugins', plugin.name, 'canary', 'promote']) : path(['plugins', plugin.name, 'canary']),
        command: ['plugin', 'canary', plugin.name, promote ? '--promote' : '--stop'],
        ask: true,
    };
};

const tenth = (value: number) => `${value.toFixed(1)} %`;

export function Trial({ plugin, figures, after }: { plugin: Plugin; figures: Figures[]; after(): void }) {
    const trial = plugin.canary;
    if (!trial) return null;
    const of = trial.promote_after ?? trial.min_attempts;
    const failing = percent(trial.failed, trial.ended);
    const most = trial.max_failure_rate * 100;
    const mine = figures.find((one) => one.version === trial.version);
    const active = figures.find((one) => one.version === plugin.active);
    const state = trial.verdict === 'above' ? 'dead' : 'held';
    return (
        <Panel
            class={`now is-${state}`}
            title={`Canary: ${short(trial.version)} gets ${trial.share} % of new attempts`}
            aside={
                <>
                    since <Time at={trial.started_at} />
                </>
            }
        >
            <div class="split trial">
                <div>
                    <div class="bar wide thick" role="meter" aria-label="Attempts of the canary that have ended" aria-valuemin={0} aria-valuemax={of} aria-valuenow={Math.min(of, trial.ended)}>
                        <i class={`fill is-${state}`} style={{ width: `${Math.min(100, percent(trial.ended, of))}%` }} />
                    </div>
                    <p class="trial-says">
                        <b>
                            {count(trial.ended)} of {count(of)}
                        </b>{' '}
                        attempts have ended · <b class={trial.verdict === 'above' ? 'dead-ink' : ''}>{tenth(failing)}</b> failed, <span class="dim">at most {tenth(most)}</span>
                    </p>
                    <p class="dim" role="status">
                        {trial.waits_for} · {count(trial.given)} of the {count(trial.attempts)} attempts since then ran on it
                    </p>
                    <div class="acts">
                        <ActionButton action={ending(plugin, true)} kind="main" after={after} />
                        <ActionButton action={ending(plugin, false)} kind="danger" after={after} />
                    </div>
                </div>
                <div class="against">
                    <p class="dim">
                        Per attempt, since the server started. Failed: active {failedOf(active)}, canary {tenth(failing)}.
                    </p>
                    <Compared versions={[active, mine]} />
                </div>
            </div>
        </Panel>
    );
}

const failedOf = (one: Figures | undefined) => (one?.attempts ? tenth(percent(one.failed_attempts, one.attempts)) : '–');

const MEASURES: [string, (one: Figures) => Dist, (n: number) => string][] = [
    ['CPU', (one) => one.cpu_ms, span],
    ['Memory', (one) => one.memory_bytes, bytes],
    ['Time', (one) => one.run_ms, span],
];
const POINTS = [
    ['p50', 'half'],
    ['p95', '95 %'],
    ['p99', '99 %'],
    ['max', 'most'],
] as const;

/** How what attempts use is spread, for the active version and the canary, each measure on one scale: the thick part is from half to 95 %, the line goes to the most. */
function Compared({ versions }: { versions: (Figures | undefined)[] }) {
    return (
        <table class="plain-table">
            <thead>
                <tr>
                    <th scope="col" colSpan={2}>
                        at most
                    </th>
                    <th class="from-s" aria-hidden="true" />
                    {POINTS.map(([key, title]) => (
                        <th key={key} scope="col" class={`num ${key === 'p99' ? 'from-s' : ''}`}>
                            {title}
                        </th>
                    ))}
                </tr>
            </thead>
            {MEASURES.map(([title, of, text]) => {
                const [active, canary] = versions.map((one) => one && of(one));
                const most = Math.max(active?.max ?? 0, canary?.max ?? 0) || 1;
                return (
                    <tbody key={title}>
                        <Spread title={title} who="active" of={active} most={most} text={text} />
                        <Spread who="canary" of={canary} against={active} most={most} text={text} />
                    </tbody>
                );
            })}
        </table>
    );
}

/** One measure of one version. What is clearly worse than in the other is marked, in words too. */
function Spread({ title, who, of, against, most, text }: { title?: string; who: 'active' | 'canary'; of?: Dist; against?: Dist; most: number; text(n: number): string }) {
    const at = (value: number | null | undefined) => ((value ?? 0) / most) * 100;
    return (
        <tr>
            {title && (
                <th scope="rowgroup" rowSpan={2}>
                    {title}
                </th>
            )}
            <th scope="row" class={who === 'active' ? 'dim' : ''}>
                {who}
            </th>
            <td class="spread from-s" aria-hidden="true">
                {of?.p50 != null && (
                    <span class={`is-${who === 'active' ? 'cancelled' : 'held'}`}>
                        <b style={{ width: `${at(of.max)}%` }} />
                        <i style={{ left: `${at(of.p50)}%`, width: `${Math.max(1, at(of.p95) - at(of.p50))}%` }} />
                    </span>
                )}
            </td>
            {POINTS.map(([key]) => {
                const [value, other] = [of?.[key] ?? null, against?.[key] ?? null];
                const worse = value !== null && other !== null && value > other * 1.2 && value - other > 0.5;
                return (
                    <td key={key} class={`num ${key === 'p99' ? 'from-s' : ''} ${worse ? 'warn-line' : ''}`}>
                        {value === null ? '–' : text(value)}
                        {worse && <span class="sr"> (more than the active one)</span>}
                    </td>
                );
            })}
        </tr>
    );
}
