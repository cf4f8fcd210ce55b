// One outgoing webhook: what was sent, what came back, and what to do about it.
import { useEffect, useState } from 'preact/hooks';
import {
    act, ActionButton, ApiError, count, Empty, Facts, Failed, get, go, href, Loading, may, now, PageHead, Panel, path, setTitle, show, span, StatePill, Table, Time, usePaletteEntries, useResource, type Action, type Column,
} from '#kit';
import { Edit, eventsOf, Rotate, Standing, type Webhook } from './outgoing';

interface Delivery {
    id: string;
    at: string;
    seq: number | null;
    type: string;
    cause: string;
    attempt: number;
    status_code: number | null;
    duration_ms: number;
    error: string | null;
    next_attempt_at: string | null;
}

interface Attempted extends Delivery {
    delivered: boolean;
    response: string | null;
}

const removing = (hook: Webhook): Action => ({
    label: 'Remove',
    does: `Sends no more events to ${hook.url}. What was sent stays in no list.`,
    done: 'The webhook is removed',
    needs: 'administer',
    method: 'DELETE',
    path: path(['webhook-endpoints', hook.id]),
    command: ['webhook', 'remove', hook.id],
    final: true,
});

const switching = (hook: Webhook): Action => ({
    label: hook.enabled ? 'Turn off' : 'Turn on',
    does: hook.enabled ? 'Sends no events until it is turned on again; those of the meantime are not sent later.' : 'Sends events again from now on, not those of the meantime.',
    done: hook.enabled ? 'The webhook is off' : 'The webhook is on',
    needs: 'administer',
    method: 'PATCH',
    path: path(['webhook-endpoints', hook.id]),
    body: { enabled: !hook.enabled },
    command: ['webhook', 'edit', hook.id, '--enabled', String(!hook.enabled)],
    ask: hook.enabled,
});

const testing = (hook: Webhook): Action => ({
    label: 'Send a test',
    does: `Sends a test to ${hook.url} now, once, and shows what comes back.`,
    done: 'The test was sent',
    needs: 'administer',
    method: 'POST',
    path: path(['webhook-endpoints', hook.id, 'test']),
    command: ['webhook', 'test', hook.id],
});

const again = (hook: Webhook, sent: Delivery): Action => ({
    label: 'Send again',
    does: `Sends this event to ${hook.url} again, once, and shows what comes back.`,
    done: 'It was sent again',
    needs: 'administer',
    method: 'POST',
    path: path(['webhook-endpoints', hook.id, 'deliveries', sent.id, 'redeliver']),
    command: ['webhook', 'redeliver', hook.id, sent.id],
});

export function Hook({ id }: { id: string }) {
    const found = useResource(`webhook ${id}`, (signal) => get<Webhook>(path(['webhook-endpoints', id]), signal), { everyMs: 4000 });
    const sent = useResource(`deliveries of ${id}`, (signal) => get<Delivery[]>(path(['webhook-endpoints', id, 'deliveries']), signal), { everyMs: 3000 });
    const [result, setResult] = useState<Attempted>();
    const hook = found.data;
    useEffect(() => setTitle(hook?.url ?? 'Webhook'), [hook?.url]);
    const reload = () => {
        found.reload();
        sent.reload();
    };
    const came = (answer: unknown) => {
        setResult(answer as Attempted);
        reload();
    };
    const administers = may('administer');
    usePaletteEntries(administers && hook ? [{ text: 'Send a test', kind: 'action', run: () => act(testing(hook), { after: came }) }] : [], [administers, hook?.id]);
    const crumbs = [{ text: 'Webhooks', href: href('/webhooks') }];
    if (!hook) {
        if (found.error instanceof ApiError && found.error.status === 404) {
            return (
                <>
                    <PageHead title={id} crumbs={crumbs} />
                    <Panel label="Webhook">
                        <Empty title="There is no such webhook">It may have been removed, or belongs to another namespace.</Empty>
                    </Panel>
                </>
            );
        }
        return found.error ? <Failed error={found.error} retry={found.reload} /> : <Loading rows={6} />;
    }
    const edit = () => show((close) => <Edit of={hook} close={close} after={reload} />);
    const rotate = () => show((close) => <Rotate hook={hook} close={close} after={reload} />);
    const columns: Column<Delivery & { n: number }>[] = [
        { key: 'at', title: 'When', width: '88px', cell: (one) => <Time at={one.at} millis /> },
        { key: 'type', title: 'Event', width: '118px', cell: (one) => <span title={one.seq === null ? undefined : `event ${one.seq}`}>{one.type}{one.cause === 'redelivery' && <span class="dimmer"> again</span>}</span> },
        { key: 'status', title: 'Answer', width: '76px', cell: (one) => <Answer of={one} /> },
        { key: 'attempt', title: 'Attempt', num: true, width: '72px', from: 'l', cell: (one) => one.attempt },
        { key: 'took', title: 'Took', num: true, width: '72px', from: 'm', cell: (one) => span(one.duration_ms) },
        { key: 'error', title: 'Why not', from: 's', cell: (one) => <span class="dead-ink" title={one.error ?? ''}>{one.error}</span> },
        { key: 'next', title: 'Next', width: '72px', from: 'l', cell: (one) => (one.next_attempt_at && Date.parse(one.next_attempt_at) > now.value ? <Time at={one.next_attempt_at} future /> : '') },
        ...(administers
            ? [
                  {
                      key: 'do',
                      title: '',
                      width: '122px',
                      num: true,
                      cell: (one: Delivery) =>
                          one.cause !== 'test' && <ActionButton action={again(hook, one)} after={came} />,
                  } satisfies Column<Delivery & { n: number }>,
              ]
            : []),
    ];
    return (
        <>
            <PageHead
                crumbs={crumbs}
                title={hook.url}
                about={<Standing hook={hook} />}
                actions={
                    administers && (
                        <>
                            <ActionButton action={testing(hook)} kind="main" after={came} />
                            <button type="button" onClick={edit}>
                                Edit…
                            </button>
                            <button type="button" onClick={rotate}>
                                New secret…
                            </button>
                            <ActionButton action={switching(hook)} after={reload} />
                            <ActionButton action={removing(hook)} after={() => go(href('/webhooks'))} />
                        </>
                    )
                }
            />
            <div role="status">
                {result && (
                    <Panel class={`now is-${result.delivered ? 'completed' : 'dead'}`} title={result.delivered ? `Delivered: ${result.status_code} after ${span(result.duration_ms)}` : `Not delivered${result.status_code ? `: ${result.status_code}` : ''}`}>
                        {result.error && <p class="wrong-line">{result.error}</p>}
                        {result.response ? (
                            <pre class="plain" tabIndex={0} aria-label="What the receiver answered">
                                {result.response}
                            </pre>
                        ) : (
                            <p class="dim">{result.status_code ? 'The answer had no body.' : 'There was no answer.'}</p>
                        )}
                    </Panel>
                )}
            </div>
            <div class="split">
                <Panel title="Deliveries" aside="the last 100 attempts of the last 7 days" flush>
                    {sent.error && !sent.data ? (
                        <Failed error={sent.error} retry={sent.reload} />
                    ) : !sent.data ? (
                        <Loading rows={4} />
                    ) : (
                        <Table
                            label="Deliveries"
                            columns={columns}
                            rows={sent.data.map((one, n) => ({ ...one, n }))}
                            rowKey={(one) => `${one.id} ${one.at} ${one.n}`}
                            empty={<Empty title="Nothing was sent yet" command={`windlass webhook test ${hook.id}`}>It is when one of its events happens.</Empty>}
                        />
                    )}
                </Panel>
                <Panel title="About it">
                    <Facts
                        of={[
                            ['Events', eventsOf(hook)],
                            ['Delivered', count(hook.delivered)],
                            ['Given up', <span class={hook.failed ? 'dead-ink' : ''}>{count(hook.failed)}</span>],
                            ['Retries', hook.retry_limit],
                            ['Signed', hook.has_secret ? 'yes' : 'no'],
                            !!hook.previous_secret_until && ['Old secret until', <Time at={hook.previous_secret_until} future />],
                            ['Made', <Time at={hook.created_at} />],
                            ['Id', <span class="mono">{hook.id}</span>],
                        ]}
                    />
                    {hook.last_error && <p class="wrong-line settings-act">{hook.last_error}</p>}
                </Panel>
            </div>
        </>
    );
}

function Answer({ of }: { of: Delivery }) {
    if (of.error === null) return <StatePill of="completed">{of.status_code ?? 'ok'}</StatePill>;
    return <StatePill of={of.next_attempt_at ? 'retrying' : 'dead'}>{of.status_code ?? 'none'}</StatePill>;
}
