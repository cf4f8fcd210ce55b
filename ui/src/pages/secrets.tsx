// Secrets: names and who may read them. A value goes in and never comes out.
import { useState } from 'preact/hooks';
import { ActionButton, call, Empty, Failed, FormDialog, Field, get, href, Loading, PageHead, Panel, path, plural, show, Table, Time, usePaletteEntries, useResource, type Action, type Column } from '#kit';

interface Secret {
    name: string;
    granted_to: string[];
    created_at: string;
    updated_at: string;
}

const removing = (secret: Secret): Action => ({
    label: 'Remove',
    does: `Removes the secret ${secret.name}.${secret.granted_to.length ? ` The next attempts of ${secret.granted_to.join(', ')} do not get it.` : ' No plugin may read it.'}`,
    done: `${secret.name} is removed`,
    needs: 'administer',
    method: 'DELETE',
    path: path(['secrets', secret.name]),
    command: ['secret', 'remove', secret.name],
    final: true,
});

export default function Secrets() {
    const found = useResource('secrets', (signal) => get<{ secrets: Secret[] }>('/secrets', signal), { everyMs: 10_000 });
    const open = (name?: string) => show((close) => <Set name={name} known={found.data?.secrets ?? []} close={close} after={found.reload} />);
    usePaletteEntries([{ text: 'Set a secret', kind: 'action', run: () => open() }], [found.data]);
    const columns: Column<Secret>[] = [
        { key: 'name', title: 'Name', cell: (secret) => <span class="mono" title={secret.name}>{secret.name}</span> },
        {
            key: 'used',
            title: 'May be read by',
            cell: (secret) =>
                secret.granted_to.length ? (
                    secret.granted_to.map((plugin, at) => (
                        <span key={plugin}>
                            {at > 0 && ', '}
                            <a href={href(`/plugins/${encodeURIComponent(plugin)}`, { tab: 'grants' })}>{plugin}</a>
                        </span>
                    ))
                ) : (
                    <span class="dimmer">no plugin</span>
                ),
        },
        { key: 'updated', title: 'Set', width: '100px', from: 's', cell: (secret) => <Time at={secret.updated_at} /> },
        { key: 'created', title: 'First set', width: '100px', from: 'm', cell: (secret) => <Time at={secret.created_at} /> },
        {
            key: 'do',
            title: '',
            width: '196px',
            num: true,
            cell: (secret) => (
                <span class="row-acts">
                    <button type="button" onClick={() => open(secret.name)}>
                        Replace…
                    </button>
                    <ActionButton action={removing(secret)} after={found.reload} />
                </span>
            ),
        },
    ];
    return (
        <>
            <PageHead
                title="Secrets"
                about={found.data ? plural(found.data.secrets.length, 'secret') : undefined}
                actions={
                    <button type="button" class="main" onClick={() => open()}>
                        Set a secret…
                    </button>
                }
            />
            <Panel label="Secrets" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : !found.data ? (
                    <Loading rows={4} />
                ) : (
                    <Table
                        label="Secrets"
                        columns={columns}
                        rows={found.data.secrets}
                        rowKey={(secret) => secret.name}
                        empty={
                            <Empty title="No secret is stored" command="windlass secret set token --from FILE">
                                A secret is for handlers: a plugin reads it if its manifest asks for it and it is granted. Values are encrypted, redacted from logs and results, and never shown.
                            </Empty>
                        }
                    />
                )}
            </Panel>
        </>
    );
}

/** The server takes 4 bytes to 64 KiB. */
const LEAST = 4;

function Set({ name: fixed, known, close, after }: { name?: string; known: Secret[]; close(): void; after(): void }) {
    const [name, setName] = useState(fixed ?? '');
    const [value, setValue] = useState('');
    const [seen, setSeen] = useState(false);
    const old = known.find((one) => one.name === name.trim());
    const fits = /^[\w.:/-]+$/.test(name.trim()) && value.length >= LEAST;
    const action: Action | null = fits
        ? {
              label: old ? 'Replace' : 'Set',
              does: old ? `Replaces the value of ${old.name}. ${old.granted_to.length ? `${old.granted_to.join(', ')} get${old.granted_to.length === 1 ? 's' : ''} it with the next attempt.` : ''}` : `Stores ${name.trim()}, encrypted. A plugin gets it when it asks for it and is granted it.`,
              done: `${name.trim()} is stored`,
              needs: 'administer',
              method: 'PUT',
              path: path(['secrets', name.trim()]),
              shows: '@value.txt',
              body: '',
              command: ['secret', 'set', name.trim(), '--from', 'value.txt'],
          }
        : null;
    const send = () => call('PUT', path(['secrets', name.trim()]), { raw: value, type: 'text/plain' });
    return (
        <FormDialog title={fixed ? `Replace ${fixed}` : 'Set a secret'} label="Set" action={action} why={`A name of letters, digits and . _ - : /, and a value of at least ${LEAST} characters.`} close={close} after={after} go={send}>
            {!fixed && <Field label="Name" value={name} set={setName} required autofocus spellcheck={false} placeholder="api.token" />}
            {seen ? (
                <label class="field">
                    <span>Value</span>
                    <textarea rows={5} spellcheck={false} autocomplete="off" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
                </label>
            ) : (
                <Field label="Value" type="password" autocomplete="new-password" value={value} set={setValue} autofocus={!!fixed} />
            )}
            <p>
                <button type="button" class="quiet small" aria-pressed={seen} onClick={() => setSeen(!seen)}>
                    {seen ? 'Hide what I type' : 'Show what I type, in several lines'}
                </button>
            </p>
        </FormDialog>
    );
}
