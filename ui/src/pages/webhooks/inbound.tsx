// Incoming webhooks: queues that accept requests of another service if it has signed them.
import { useState } from 'preact/hooks';
import {
    ActionButton, Copy, Empty, Failed, Field, FormDialog, get, Loading, Panel, path, QueueField, QueueLink, Select, show, Table, Time, usePaletteEntries, useResource, type Action, type Column,
} from '#kit';

interface Inbound {
    queue: string;
    path: string;
    scheme: string;
    tolerance: string | null;
    previous_secret_until: string | null;
    created_at: string;
    updated_at: string;
}

const SCHEMES: Record<string, string> = { github: 'GitHub: X-Hub-Signature-256', stripe: 'Stripe: Stripe-Signature', standard: 'Standard Webhooks, Svix: webhook-signature' };

const removing = (hook: Inbound): Action => ({
    label: 'Remove',
    does: `${hook.queue} accepts requests without a signature again, from clients with a key; those without are refused.`,
    done: `${hook.queue} no longer asks for signatures`,
    needs: 'administer',
    method: 'DELETE',
    path: path(['inbound-webhooks', hook.queue]),
    command: ['webhook', 'inbound', 'remove', hook.queue],
    final: true,
});

export function Inbound() {
    const found = useResource('inbound', (signal) => get<Inbound[]>('/inbound-webhooks', signal), { everyMs: 10_000 });
    const edit = (of?: Inbound) => show((close) => <Edit of={of} close={close} after={found.reload} />);
    usePaletteEntries([{ text: 'Verify webhooks of a service', kind: 'action', run: () => edit() }], []);
    const columns: Column<Inbound>[] = [
        { key: 'queue', title: 'Queue', cell: (hook) => <QueueLink name={hook.queue} /> },
        { key: 'scheme', title: 'Signed as', width: '100px', from: 's', cell: (hook) => hook.scheme },
        {
            key: 'path',
            title: 'Address for the sender',
            from: 's',
            width: '38%',
            cell: (hook) => (
                <span class="row">
                    <code class="clip" title={location.origin + hook.path}>
                        {hook.path}
                    </code>
                    <Copy text={location.origin + hook.path} label={`Copy the address for ${hook.queue}`} />
                </span>
            ),
        },
        { key: 'tolerance', title: 'Tolerance', width: '84px', from: 'l', cell: (hook) => hook.tolerance ?? <span class="dimmer">–</span> },
        { key: 'old', title: 'Old secret', width: '92px', from: 'l', cell: (hook) => (hook.previous_secret_until ? <Time at={hook.previous_secret_until} future /> : <span class="dimmer">–</span>) },
        {
            key: 'do',
            title: '',
            width: '190px',
            num: true,
            cell: (hook) => (
                <span class="row-acts">
                    <button type="button" onClick={() => edit(hook)}>
                        Change…
                    </button>
                    <ActionButton action={removing(hook)} after={found.reload} />
                </span>
            ),
        },
    ];
    return (
        <>
            <div class="filters">
                <button type="button" class="main" onClick={() => edit()}>
                    Verify a service…
                </button>
            </div>
            <Panel label="Incoming webhooks" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : !found.data ? (
                    <Loading rows={3} />
                ) : (
                    <Table
                        label="Incoming webhooks"
                        columns={columns}
                        rows={found.data}
                        rowKey={(hook) => hook.queue}
                        empty={
                            <Empty title="No queue verifies signatures" command="windlass webhook inbound set github.pushes --scheme github --from github.secret">
                                Other services post to /api/v1/webhooks/QUEUE, and each request becomes a job. A queue that verifies signatures takes the place of a key: GitHub, Stripe and Standard Webhooks can send to it.
                            </Empty>
                        }
                    />
                )}
            </Panel>
        </>
    );
}

function Edit({ of, close, after }: { of?: Inbound; close(): void; after(): void }) {
    const [queue, setQueue] = useState(of?.queue ?? '');
    const [scheme, setScheme] = useState(of?.scheme ?? 'github');
    const [secret, setSecret] = useState('');
    const [keep, setKeep] = useState('');
    const [tolerance, setTolerance] = useState(of?.tolerance ?? '');
    const needed = !of || of.scheme !== scheme;
    const ready = queue.trim() && (secret.length >= 16 || (!needed && !secret));
    const rest = { scheme, ...(keep && secret ? { keep_previous: keep } : {}), ...(tolerance && scheme !== 'github' ? { tolerance } : {}) };
    const action: Action | null = ready
        ? {
              label: of ? 'Save' : 'Verify',
              does: `${queue.trim()} accepts requests that are signed as ${scheme} does, without a key, and refuses all others.`,
              done: `${queue.trim()} verifies signatures`,
              needs: 'administer',
              method: 'PUT',
              path: path(['inbound-webhooks', queue.trim()]),
              body: { ...rest, ...(secret ? { secret } : {}) },
              shows: JSON.stringify({ ...rest, ...(secret ? { secret: 'THE-SECRET' } : {}) }),
              command: ['webhook', 'inbound', 'set', queue.trim(), '--scheme', scheme, ...(secret ? ['--from', 'sender.secret'] : ['--same-secret']), ...(keep && secret ? ['--keep-previous', keep] : []), ...(tolerance && scheme !== 'github' ? ['--tolerance', tolerance] : [])],
          }
        : null;
    return (
        <FormDialog title={of ? `Webhooks into ${of.queue}` : 'Verify the webhooks of a service'} label={of ? 'Save' : 'Verify'} action={action} why="A queue, and the sender's secret of at least 16 characters." close={close} after={after}>
            {!of && <QueueField label="Queue" value={queue} set={setQueue} required autofocus placeholder="github.pushes" />}
            <Select label="How the sender signs" value={scheme} set={setScheme} of={SCHEMES} />
            <Field label={needed ? "The sender's secret" : "A new secret of the sender (empty: it stays)"} type="password" autocomplete="new-password" value={secret} set={setSecret} />
            {of && secret && <Field label="The old secret is accepted beside it for" value={keep} set={setKeep} placeholder="not at all; or 1h" />}
            {scheme !== 'github' && <Field label="How far the signed time may be off" value={tolerance} set={setTolerance} placeholder="5m" />}
        </FormDialog>
    );
}
