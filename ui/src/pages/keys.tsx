// Keys: who may do what. A key is shown once, when it is made; the server keeps its hash.
import { useState } from 'preact/hooks';
import {
    ActionButton, Copy, count, Empty, Failed, Field, FormDialog, get, href, Loading, may, now, PageHead, Panel, path, plural, query, Select, session, setQuery, show, ShownOnce, StatePill, Table, Time, usePaletteEntries, useResource,
    type Action, type Column,
} from '#kit';

interface Key {
    id: string;
    name: string;
    role: string;
    namespace: string;
    queues: string[];
    rate: { count: number; per: string } | null;
    expires_at: string | null;
    created_at: string;
    created_by: string | null;
    last_used_at: string | null;
}

/** What each role is for, as docs/access.md says it. */
const ROLES: Record<string, string> = {
    producer: 'producer: enqueues, and reads its jobs',
    worker: 'worker: fetches jobs and reports on them',
    viewer: 'viewer: reads everything',
    operator: 'operator: reads, enqueues, and acts on jobs and queues',
    deployer: 'deployer: reads, enqueues, and deploys plugins',
    admin: 'admin: all of that, and grants, secrets, keys',
};

const expired = (key: Key) => key.expires_at !== null && Date.parse(key.expires_at) <= now.value;

const revoking = (key: Key): Action => ({
    label: 'Revoke',
    does: `Refuses the key ${key.id} of ${key.name} from this moment on, and ends the sessions that were begun with it.${key.id === session.value?.actor ? ' It is your own: you are signed out.' : ''}`,
    done: `The key of ${key.name} is revoked`,
    needs: 'administer',
    method: 'DELETE',
    path: path(['auth', 'keys', key.id]),
    command: ['key', 'revoke', key.id],
    final: true,
});

const rateOf = (key: Key) => (key.rate ? `${count(key.rate.count)} / ${key.rate.per}` : '');

const columns = (reload: () => void): Column<Key>[] => [
    { key: 'name', title: 'Name', cell: (key) => <span title={key.name}>{key.name}</span> },
    { key: 'role', title: 'Role', width: '92px', cell: (key) => key.role },
    { key: 'id', title: 'Id', width: '120px', from: 'm', cell: (key) => <span class="mono">{key.id}</span> },
    { key: 'namespace', title: 'Namespace', width: '100px', from: 'm', cell: (key) => (key.namespace === '*' ? 'all' : key.namespace) },
    { key: 'queues', title: 'Queues', from: 's', cell: (key) => <span class={key.queues.length ? '' : 'dimmer'} title={key.queues.join(', ')}>{key.queues.join(', ') || 'all'}</span> },
    { key: 'rate', title: 'Rate', width: '100px', from: 'l', cell: (key) => rateOf(key) || <span class="dimmer">–</span> },
    { key: 'expires', title: 'Valid', width: '96px', from: 's', cell: (key) => (expired(key) ? <StatePill of="dead">expired</StatePill> : key.expires_at ? <Time at={key.expires_at} future /> : <span class="dimmer">always</span>) },
    { key: 'used', title: 'Last used', width: '92px', from: 's', cell: (key) => (key.last_used_at ? <Time at={key.last_used_at} /> : <span class="dimmer">never</span>) },
    { key: 'do', title: '', width: '112px', num: true, cell: (key) => <ActionButton action={revoking(key)} after={reload} /> },
];

export default function Keys() {
    const found = useResource('keys', (signal) => get<{ keys: Key[] }>('/auth/keys', signal), { everyMs: 10_000 });
    const search = query.value.get('q') ?? '';
    const all = found.data?.keys ?? [];
    const shown = all.filter((key) => [key.name, key.role, key.id, key.namespace, ...key.queues].some((text) => text.toLowerCase().includes(search.toLowerCase())));
    const make = () => show((close) => <Make close={close} after={found.reload} />);
    usePaletteEntries([{ text: 'Make a key', kind: 'action', run: make }], []);
    return (
        <>
            <PageHead
                title="Keys"
                about={found.data ? plural(all.length, 'key') : undefined}
                actions={
                    <button type="button" class="main" onClick={make}>
                        Make a key…
                    </button>
                }
            />
            <div class="filters">
                <input type="search" data-filter aria-label="Filter keys" placeholder="Filter by name, role, id or queue" value={search} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
            </div>
            <Panel label="Keys" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : !found.data ? (
                    <Loading rows={5} />
                ) : (
                    <Table
                        label="Keys"
                        columns={columns(found.reload)}
                        rows={shown}
                        rowKey={(key) => key.id}
                        empty={<Empty title={search ? 'No key fits' : 'There are no keys here'}>{search ? undefined : 'Programs that enqueue, workers and people each get one of their own, with no more than they need.'}</Empty>}
                    />
                )}
            </Panel>
            <p class="dim">
                What each role may do is in the documentation of access. Who may enqueue without a key is decided under <a href={href('/webhooks', { tab: 'rules' })}>enqueue rules</a>.
            </p>
        </>
    );
}

function Make({ close, after }: { close(): void; after(): void }) {
    const mine = session.value;
    const [name, setName] = useState('');
    const [role, setRole] = useState('producer');
    const [of, setOf] = useState(mine?.namespace ?? 'default');
    const [queues, setQueues] = useState('');
    const [rate, setRate] = useState('');
    const [expires, setExpires] = useState('');
    const globs = queues.split(/[\s,]+/).filter(Boolean);
    const [, times, per] = /^(\d+)\s*\/\s*(\S+)$/.exec(rate.trim()) ?? [];
    const rateFits = rate.trim() === '' || times !== undefined;
    const namespaces = useResource(mine?.chooses_namespace && may('administer-server') ? 'namespaces' : null, (signal) => get<{ namespaces: { name: string }[] }>('/namespaces', signal));
    const body = {
        name: name.trim(),
        role,
        ...(mine?.chooses_namespace ? { namespace: of } : {}),
        ...(globs.length ? { queues: globs } : {}),
        ...(times ? { rate: { count: Number(times), per } } : {}),
        ...(expires ? { expires_at: new Date(expires).toISOString() } : {}),
    };
    const action: Action | null =
        name.trim() && rateFits
            ? {
                  label: 'Make the key',
                  does: `Makes a key for ${name.trim()}, with the role ${role}${globs.length ? `, for the queues ${globs.join(', ')}` : ''}${mine?.chooses_namespace ? (of === '*' ? ', in all namespaces' : `, in the namespace ${of}`) : ''}. It is shown once.`,
                  done: `The key of ${name.trim()} is made`,
                  needs: 'administer',
                  method: 'POST',
                  path: '/auth/keys',
                  body,
                  command: [
                      'key', 'create', name.trim(), '--role', role,
                      ...(mine?.chooses_namespace ? ['--for-namespace', of] : []),
                      ...(globs.length ? ['--queues', globs.join(',')] : []),
                      ...(times ? ['--rate', `${times}/${per}`] : []),
                      ...(expires ? ['--expires-at', new Date(expires).toISOString()] : []),
                  ],
              }
            : null;
    const made = ({ key }: { key: string }) => {
        after();
        show((close) => <ShownOnce title={`The key of ${name.trim()}`} about="Copy it now, and keep it where secrets are kept." text={key} close={close} copy={<Copy text={key} label="Copy the key" />} />);
    };
    return (
        <FormDialog<{ key: string }> title="Make a key" label="Make the key" action={action} why={rateFits ? 'Say who uses it.' : 'Write a rate as 100/1s.'} close={close} after={made}>
            <Field label="Who uses it" value={name} set={setName} required autofocus placeholder="billing service" />
            <Select label="What it may do" value={role} set={setRole} of={ROLES} />
            {mine?.chooses_namespace && (
                <Select
                    label="Where it is valid"
                    value={of}
                    set={setOf}
                    of={{ ...Object.fromEntries(['default', mine.namespace, ...(namespaces.data?.namespaces ?? []).map((one) => one.name)].map((one) => [one, one])), '*': 'all namespaces' }}
                />
            )}
            <Field label="Queues" value={queues} set={setQueues} placeholder="all; or emails.send, billing.*" spellcheck={false} hint="Jobs of other queues do not exist for it." />
            <div class="pair">
                <Field label="Rate of requests" value={rate} set={setRate} placeholder="no limit; or 100/1s" spellcheck={false} aria-invalid={!rateFits} />
                <Field label="Valid until (your time)" type="datetime-local" value={expires} set={setExpires} />
            </div>
        </FormDialog>
    );
}
