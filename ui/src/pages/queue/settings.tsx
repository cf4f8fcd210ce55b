// The settings of a queue: limits, fairness, rounds, how long ended jobs stay, and defaults for its jobs.
import { useEffect, useState } from 'preact/hooks';
import { AsCommands, call, Check, Failed, Field, FormDialog, get, Loading, may, Panel, path, QueueField, Select, show, useResource } from '#kit';
import { bodyOf, changing, draftOf, STATES, wrongIn, type Draft, type QueueSettings } from './draft';

export function Settings({ name }: { name: string }) {
    const found = useResource(`settings of ${name}`, (signal) => get<{ settings: QueueSettings }>(path(['queues', name]), signal), { everyMs: 10_000 });
    if (found.error && !found.data) return <Failed error={found.error} retry={found.reload} />;
    if (!found.data) return <Loading rows={6} />;
    return <Form name={name} settings={found.data.settings} reload={found.reload} />;
}

function Form({ name, settings, reload }: { name: string; settings: QueueSettings; reload(): void }) {
    const start = draftOf(settings);
    const known = JSON.stringify(start);
    const [draft, setDraft] = useState(start);
    // What somebody else saves meanwhile is taken over.
    useEffect(() => setDraft(start), [known]);
    const disabled = !may('operate');
    const body = bodyOf(start, draft);
    const wrong = wrongIn(draft);
    const action = Object.keys(body).length > 0 && !wrong ? changing(name, start, draft, body) : null;
    const field = (key: keyof Draft & string, label: string, placeholder: string, hint?: string) => (
        <Field label={label} value={draft[key] as string} set={(text) => setDraft({ ...draft, [key]: text })} placeholder={placeholder} hint={hint} disabled={disabled} spellcheck={false} />
    );
    // A default is taken back only with all of them, so what stays is sent again.
    const go = async () => {
        const gone = Object.keys(start.defaults).some((key) => start.defaults[key] && !draft.defaults[key]);
        if (gone) await call('POST', path(['queues', name, 'settings']), { body: { defaults: null } });
        return call('POST', path(['queues', name, 'settings']), { body });
    };
    const save = () => action && show((close) => <FormDialog title={`Settings of ${name}`} action={action} close={close} after={reload} go={go} />);
    return (
        <div class="split">
            <form
                onSubmit={(event) => {
                    event.preventDefault();
                    save();
                }}
            >
                <Panel title="Limits">
                    <div class="pair">
                        {field('max_concurrency', 'Jobs at once', 'no limit')}
                        {field('rate', 'Starts', 'no limit; or 100/1m')}
                        {field('key_concurrency', 'At once for each limit key', 'no limit')}
                        {field('key_rate', 'Starts for each limit key', 'no limit; or 10/1m')}
                        {field('ageing', 'A level of priority after', 'never; or 10m', 'Without it, urgent jobs always come first.')}
                    </div>
                </Panel>
                <Panel title="Defaults for its jobs">
                    <div class="pair">
                        <Select label="Priority" value={draft.defaults.priority ?? ''} set={(priority) => setDraft({ ...draft, defaults: { ...draft.defaults, priority } })} of={{ '': 'normal', critical: 'critical', high: 'high', low: 'low' }} />
                        {DEFAULTS.map(([key, label, placeholder]) => (
                            <Field key={key} label={label} value={draft.defaults[key] ?? ''} set={(text) => setDraft({ ...draft, defaults: { ...draft.defaults, [key]: text } })} placeholder={placeholder} disabled={disabled} spellcheck={false} />
                        ))}
                        <Select
                            label="Delay between attempts"
                            value={draft.defaults.retry_backoff ?? ''}
                            set={(retry_backoff) => setDraft({ ...draft, defaults: { ...draft.defaults, retry_backoff } })}
                            of={{ '': 'exponential', quadratic: 'quadratic', linear: 'linear', fixed: 'fixed', none: 'none' }}
                        />
                    </div>
                </Panel>
                <Panel title="How long ended jobs stay">
                    <table class="plain-table">
                        <thead>
                            <tr>
                                <th scope="col">State</th>
                                <th scope="col">For</th>
                                <th scope="col">At most so many</th>
                            </tr>
                        </thead>
                        <tbody>
                            {STATES.map((state) => (
                                <tr key={state}>
                                    <th scope="row">{state}</th>
                                    {(['age', 'count'] as const).map((part) => (
                                        <td key={part}>
                                            <input
                                                aria-label={`${state}: ${part === 'age' ? 'how long' : 'how many'}`}
                                                value={draft.retention[state][part]}
                                                placeholder={part === 'age' ? '7d' : 'any number'}
                                                disabled={disabled}
                                                onInput={(event) => setDraft({ ...draft, retention: { ...draft.retention, [state]: { ...draft.retention[state], [part]: event.currentTarget.value } } })}
                                            />
                                        </td>
                                    ))}
                                </tr>
                            ))}
                        </tbody>
                    </table>
                </Panel>
                <Panel title="Rounds">
                    <div class="stack">
                        <Check label="It runs level by level: a round starts when all jobs of the one before have ended" checked={draft.rounds} set={(rounds) => setDraft({ ...draft, rounds })} disabled={disabled} />
                        {draft.rounds && (
                            <div class="pair">
                                <QueueField label="Stays behind the queue" value={draft.gate_queue} set={(gate_queue) => setDraft({ ...draft, gate_queue })} placeholder="none" disabled={disabled} />
                                {draft.gate_queue && field('gate_lead', 'By so many rounds', '1')}
                                {draft.gate_queue && field('gate_max_lead', 'Which is ahead by at most', 'any number')}
                            </div>
                        )}
                    </div>
                </Panel>
            </form>
            <aside>
                <Panel title="Changes">
                    {disabled ? (
                        <p class="dim">Changing them needs the permission “operate”.</p>
                    ) : wrong ? (
                        <p class="wrong-line" role="status">
                            {wrong}
                        </p>
                    ) : action ? (
                        <>
                            <p role="status">{action.does}</p>
                            <p class="acts">
                                <button type="button" class="main" onClick={save}>
                                    Save the settings…
                                </button>
                                <button type="button" onClick={() => setDraft(start)}>
                                    Undo
                                </button>
                            </p>
                            <AsCommands action={action} />
                        </>
                    ) : (
                        <p class="dim">Nothing is changed. Defaults are for jobs that are enqueued from now on, limits for all.</p>
                    )}
                </Panel>
            </aside>
        </div>
    );
}

const DEFAULTS: [string, string, string][] = [
    ['max_attempts', 'Attempts', '3'],
    ['attempt_timeout', 'Time of an attempt', 'an hour in a plugin'],
    ['stall_timeout', 'Time without a sign of life', 'none'],
    ['max_duration', 'Time of all attempts', 'none'],
    ['expire_after', 'Dead if not completed in', 'never'],
    ['lease_duration', 'A worker may be silent for', '60s'],
    ['ttl', 'Stays stored for', 'as below'],
    ['retry_base_delay', 'First delay', '5s'],
    ['retry_max_delay', 'Longest delay', '10m'],
];
