// Outgoing webhooks: the list, and the forms that make, change and rotate one.
import { useState } from 'preact/hooks';
import {
    Copy, count, Empty, Failed, Field, FormDialog, get, href, Loading, may, Panel, path, Select, show, ShownOnce, StatePill, Table, usePaletteEntries, useResource, type Action, type Column,
} from '#kit';

export interface Webhook {
    id: string;
    url: string;
    events: string[];
    has_secret: boolean;
    previous_secret_until: string | null;
    enabled: boolean;
    retry_limit: number;
    created_at: string;
    updated_at: string;
    delivered: number;
    failed: number;
    last_error: string | null;
}

const hookHref = (hook: Webhook) => href('/webhooks', { hook: hook.id });

export function Standing({ hook }: { hook: Webhook }) {
    if (!hook.enabled) return <StatePill of="cancelled">off</StatePill>;
    if (hook.last_error) return <StatePill of="dead">failing</StatePill>;
    return <StatePill of="completed">on</StatePill>;
}

export const eventsOf = (hook: Webhook) => (hook.events.includes('*') ? 'all events' : hook.events.join(', '));

const columns: Column<Webhook>[] = [
    { key: 'url', title: 'Address', cell: (hook) => <a href={hookHref(hook)} title={hook.url}>{hook.url}</a> },
    { key: 'state', title: 'State', width: '92px', cell: (hook) => <Standing hook={hook} /> },
    { key: 'events', title: 'Events', from: 's', width: '22%', cell: (hook) => <span class="dim" title={hook.events.join(', ')}>{eventsOf(hook)}</span> },
    { key: 'delivered', title: 'Delivered', num: true, width: '86px', from: 's', cell: (hook) => count(hook.delivered) },
    { key: 'failed', title: 'Given up', num: true, width: '80px', from: 's', cell: (hook) => <span class={hook.failed ? 'dead-ink' : 'dimmer'}>{count(hook.failed)}</span> },
    { key: 'error', title: 'Latest error', from: 'l', width: '22%', cell: (hook) => <span class="dead-ink" title={hook.last_error ?? ''}>{hook.last_error}</span> },
];

export function Outgoing() {
    const found = useResource('webhooks', (signal) => get<Webhook[]>('/webhook-endpoints', signal), { everyMs: 4000 });
    const administers = may('administer');
    const make = () => show((close) => <Edit close={close} after={found.reload} />);
    usePaletteEntries(administers ? [{ text: 'Add a webhook', kind: 'action', run: make }] : [], [administers]);
    return (
        <>
            {administers && (
                <div class="filters">
                    <button type="button" class="main" onClick={make}>
                        Add a webhook…
                    </button>
                </div>
            )}
            <Panel label="Outgoing webhooks" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : !found.data ? (
                    <Loading rows={4} />
                ) : (
                    <Table
                        label="Outgoing webhooks"
                        columns={columns}
                        rows={found.data}
                        rowKey={(hook) => hook.id}
                        href={hookHref}
                        empty={
                            <Empty title="Events are sent nowhere" command="windlass webhook add https://example.com/hooks --events completed,dead">
                                A webhook gets each event as a signed request, in order and at least once.
                            </Empty>
                        }
                    />
                )}
            </Panel>
        </>
    );
}

/** What people follow most; any other type can be written. */
const USUAL = ['completed', 'dead', 'failed', 'held', 'cancelled', 'started', 'enqueued', 'plugin.activated', 'plugin.rolled_back'];
const typesIn = (text: string) => text.split(/[\s,]+/).filter(Boolean);

/** Makes one, or changes `of`. */
export function Edit({ of, close, after }: { of?: Webhook; close(): void; after(): void }) {
    const [url, setUrl] = useState(of?.url ?? '');
    const [types, setTypes] = useState(of && !of.events.includes('*') ? of.events.join(', ') : '');
    const [retries, setRetries] = useState(String(of?.retry_limit ?? 3));
    const events = typesIn(types);
    const ready = /^https?:\/\/./.test(url.trim()) && /^\d+$/.test(retries) && Number(retries) <= 20;
    const body = { url: url.trim(), events: events.length ? events : ['*'], retry_limit: Number(retries) };
    const flags = ['--events', events.length ? events.join(',') : '*', '--retry-limit', retries];
    const action: Action | null = ready
        ? {
              label: of ? 'Save' : 'Add',
              does: `${events.length ? `Sends ${events.join(', ')}` : 'Sends all events'} to ${url.trim()} from now on, and tries each ${Number(retries) + 1 === 1 ? 'once' : `up to ${Number(retries) + 1} times`}.`,
              done: of ? 'The webhook is saved' : 'The webhook is added',
              needs: 'administer',
              method: of ? 'PATCH' : 'POST',
              path: of ? path(['webhook-endpoints', of.id]) : '/webhook-endpoints',
              body,
              command: of ? ['webhook', 'edit', of.id, '--address', url.trim(), ...flags] : ['webhook', 'add', url.trim(), ...flags],
          }
        : null;
    const made = ({ secret }: { secret?: string }) => {
        after();
        if (secret) showSecret(secret);
    };
    const pick = (type: string) => setTypes((events.includes(type) ? events.filter((one) => one !== type) : [...events, type]).join(', '));
    return (
        <FormDialog<{ secret?: string }> title={of ? 'Edit the webhook' : 'Add a webhook'} label={of ? 'Save' : 'Add'} action={action} why="An address that begins with https:// or http://, and 0 to 20 retries." close={close} after={made}>
            <Field label="Address" type="url" value={url} set={setUrl} required autofocus placeholder="https://example.com/hooks" />
            <div class="stack tight">
                <Field label="Events" value={types} set={setTypes} placeholder="all" spellcheck={false} />
                <div class="chips" role="group" aria-label="Usual events">
                    {USUAL.map((type) => (
                        <button key={type} type="button" class="chip" aria-pressed={events.includes(type)} onClick={() => pick(type)}>
                            {type}
                        </button>
                    ))}
                </div>
            </div>
            <Field label="Retries of a failed delivery" type="number" min={0} max={20} value={retries} set={setRetries} />
        </FormDialog>
    );
}

const showSecret = (secret: string) =>
    show((close) => <ShownOnce title="The secret that signs deliveries" about="Give it to the receiver, which verifies each request with it, as Standard Webhooks describes." text={secret} close={close} copy={<Copy text={secret} label="Copy the secret" />} />);

export function Rotate({ hook, close, after }: { hook: Webhook; close(): void; after(): void }) {
    const [keep, setKeep] = useState('24h');
    const action: Action = {
        label: 'Rotate',
        does: keep === '0' ? 'Deliveries are signed with a new secret from now on, and no longer with the old one.' : `Deliveries are signed with a new secret from now on, and for ${keep} with the old one, too.`,
        done: 'The webhook has a new secret',
        needs: 'administer',
        method: 'POST',
        path: path(['webhook-endpoints', hook.id, 'rotate-secret']),
        body: { keep_previous: keep },
        command: ['webhook', 'rotate', hook.id, '--keep-previous', keep],
    };
    const done = ({ secret }: { secret?: string }) => {
        after();
        if (secret) showSecret(secret);
    };
    return (
        <FormDialog<{ secret?: string }> title="A new secret" action={action} close={close} after={done}>
            <Select label="The old secret signs beside it" value={keep} set={setKeep} of={{ '24h': 'for 24 hours', '1h': 'for an hour', '168h': 'for a week', '0': 'no longer: it has leaked' }} />
        </FormDialog>
    );
}
