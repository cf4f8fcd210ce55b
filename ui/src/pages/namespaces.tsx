// Namespaces: tenants that share the server, what each uses, and how much it may.
import { useState } from 'preact/hooks';
import {
    bytes, count, Empty, Failed, Field, FormDialog, get, href, Loading, Meter, PageHead, Panel, path, percent, plural, show, Table, Time, usePaletteEntries, useResource, type Action, type Column,
} from '#kit';

interface Quotas {
    open_jobs: number | null;
    queues: number | null;
    stored_bytes: number | null;
    slots: number | null;
    requests: { count: number; per: string } | null;
}

interface Namespace {
    name: string;
    quotas: Quotas;
    used: { open_jobs: number; queues: number; stored_bytes: number };
    created_at: string | null;
    created_by: string | null;
}

/** How full a quota is; without one, only what is used. */
function Use({ used, of, label, text }: { used: number; of: number | null; label: string; text(n: number): string }) {
    if (of === null) return <span>{text(used)}</span>;
    const full = percent(used, of);
    return (
        <span class="gauge">
            <Meter value={used} of={of} label={label} state={full >= 100 ? 'dead' : full > 85 ? 'retrying' : 'active'} /> {text(used)} of {text(of)}
        </span>
    );
}

export default function Namespaces() {
    const found = useResource('namespaces', (signal) => get<{ namespaces: Namespace[] }>('/namespaces', signal), { everyMs: 3000 });
    const edit = (of?: Namespace) => show((close) => <Edit of={of} close={close} after={found.reload} />);
    const remove = (of: Namespace) => show((close) => <Remove of={of} close={close} after={found.reload} />);
    usePaletteEntries([{ text: 'Make a namespace', kind: 'action', run: () => edit() }], []);
    const columns: Column<Namespace>[] = [
        { key: 'name', title: 'Namespace', cell: (one) => <a href={href('/', {}, one.name === 'default' ? '' : one.name)}>{one.name}</a> },
        { key: 'jobs', title: 'Open jobs', width: '190px', from: 's', cell: (one) => <Use used={one.used.open_jobs} of={one.quotas.open_jobs} label={`open jobs of ${one.name}`} text={count} /> },
        { key: 'stored', title: 'Stored', width: '230px', from: 'm', cell: (one) => <Use used={one.used.stored_bytes} of={one.quotas.stored_bytes} label={`stored by ${one.name}`} text={bytes} /> },
        { key: 'queues', title: 'Queues', width: '160px', from: 'm', cell: (one) => <Use used={one.used.queues} of={one.quotas.queues} label={`queues of ${one.name}`} text={count} /> },
        { key: 'slots', title: 'Slots', num: true, width: '64px', from: 'l', cell: (one) => (one.quotas.slots === null ? <span class="dimmer">–</span> : count(one.quotas.slots)) },
        { key: 'requests', title: 'Requests', width: '90px', from: 'l', cell: (one) => (one.quotas.requests ? `${count(one.quotas.requests.count)} / ${one.quotas.requests.per}` : <span class="dimmer">–</span>) },
        { key: 'created', title: 'Made', width: '90px', from: 'l', cell: (one) => <Time at={one.created_at} /> },
        {
            key: 'do',
            title: '',
            width: '200px',
            num: true,
            cell: (one) =>
                one.name === 'default' ? null : (
                    <span class="row-acts">
                        <button type="button" onClick={() => edit(one)}>
                            Quotas…
                        </button>
                        <button type="button" class="danger" onClick={() => remove(one)}>
                            Remove…
                        </button>
                    </span>
                ),
        },
    ];
    return (
        <>
            <PageHead
                title="Namespaces"
                about={found.data ? plural(found.data.namespaces.length, 'namespace') : undefined}
                actions={
                    <button type="button" class="main" onClick={() => edit()}>
                        Make a namespace…
                    </button>
                }
            />
            <Panel label="Namespaces" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : !found.data ? (
                    <Loading rows={3} />
                ) : (
                    <Table label="Namespaces" columns={columns} rows={found.data.namespaces} rowKey={(one) => one.name} empty={<Empty title="There are no namespaces" />} />
                )}
            </Panel>
            <p class="dim">Tenants that share this server and see nothing of each other. “default” has no quotas; its name leads to its pages, as with the others.</p>
        </>
    );
}

const QUOTAS: [keyof Quotas, string, string, string][] = [
    ['open_jobs', 'Open jobs', 'no limit', 'Beyond it, enqueueing is refused.'],
    ['queues', 'Queues', 'no limit', ''],
    ['stored_bytes', 'Stored bytes', 'no limit', 'Of payloads, checkpoints and results.'],
    ['slots', 'Attempts at once', 'no limit', 'Jobs of plugins wait beyond it.'],
    ['requests', 'Requests', 'no limit; or 500/1s', 'Of all its keys together.'],
];

const asText = (quotas: Quotas | undefined, name: keyof Quotas): string => {
    const value = quotas?.[name] ?? null;
    return value === null ? '' : typeof value === 'number' ? String(value) : `${value.count}/${value.per}`;
};

function Edit({ of, close, after }: { of?: Namespace; close(): void; after(): void }) {
    const [name, setName] = useState(of?.name ?? '');
    const [texts, setTexts] = useState(() => Object.fromEntries(QUOTAS.map(([key]) => [key, asText(of?.quotas, key)])) as Record<keyof Quotas, string>);
    const quotas: Record<string, unknown> = {};
    const flags: string[] = [];
    let why = /^[a-z0-9_-]{1,32}$/.test(name) ? '' : 'A name of 1 to 32 of the characters a-z 0-9 - _.';
    for (const [key, title] of QUOTAS) {
        const text = texts[key].trim();
        if (!text) continue;
        const [, times, per] = /^(\d+)\s*\/\s*(\S+)$/.exec(text) ?? [];
        if (key === 'requests' ? times === undefined : !/^\d+$/.test(text)) why ||= `${title}: write ${key === 'requests' ? 'a rate such as 500/1s' : 'a whole number'}, or nothing.`;
        quotas[key] = key === 'requests' ? { count: Number(times), per } : Number(text);
        flags.push(`--${key.replace('_', '-')}`, text);
    }
    const said = QUOTAS.filter(([key]) => quotas[key] !== undefined).map(([key, title]) => `${title.toLowerCase()} ${texts[key].trim()}`);
    const action: Action | null = why
        ? null
        : {
              label: of ? 'Set the quotas' : 'Make it',
              does: `${of ? `${name} may have` : `Makes the namespace ${name}, which may have`} ${said.length ? `at most: ${said.join(', ')}` : 'as much as there is'}.`,
              done: of ? `The quotas of ${name} are set` : `The namespace ${name} is made`,
              needs: 'administer-server',
              method: of ? 'PUT' : 'POST',
              path: of ? path(['namespaces', name, 'quotas']) : '/namespaces',
              body: of ? quotas : { name, quotas },
              command: ['namespace', of ? 'quotas' : 'create', name, ...flags],
          };
    return (
        <FormDialog title={of ? `Quotas of ${of.name}` : 'Make a namespace'} label={of ? 'Set the quotas' : 'Make it'} action={action} why={why} close={close} after={after}>
            {!of && <Field label="Name" value={name} set={setName} required autofocus spellcheck={false} placeholder="acme" />}
            <div class="pair">
                {QUOTAS.map(([key, title, placeholder, hint]) => (
                    <Field key={key} label={title} value={texts[key]} set={(text) => setTexts({ ...texts, [key]: text })} placeholder={placeholder} hint={hint || undefined} />
                ))}
            </div>
        </FormDialog>
    );
}

/** Everything in it goes: so its name is typed. */
function Remove({ of, close, after }: { of: Namespace; close(): void; after(): void }) {
    const [typed, setTyped] = useState('');
    const action: Action | null =
        typed === of.name
            ? {
                  label: 'Remove',
                  does: `Removes ${of.name} with its ${plural(of.used.queues, 'queue')} and their jobs, ${count(of.used.open_jobs)} of them open, and its plugins, schedules, secrets and keys.`,
                  done: `${of.name} is removed`,
                  needs: 'administer-server',
                  method: 'DELETE',
                  path: path(['namespaces', of.name], { confirm: true }),
                  command: ['namespace', 'remove', of.name, '--confirm'],
                  final: true,
              }
            : null;
    return (
        <FormDialog title={`Remove ${of.name}`} label="Remove" action={action} why={`Its ${plural(of.used.queues, 'queue')} with ${count(of.used.open_jobs)} open jobs would go, with its plugins, schedules, secrets and keys.`} close={close} after={after}>
            <Field label={`Type ${of.name} to confirm`} value={typed} set={setTyped} autofocus spellcheck={false} autocomplete="off" />
        </FormDialog>
    );
}
