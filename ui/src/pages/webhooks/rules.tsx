// Enqueue rules: who may enqueue to which queues, also without a key. The first rule that covers a queue decides.
import { useState } from 'preact/hooks';
import { ActionButton, Choices, Empty, Failed, Field, FormDialog, get, Loading, Panel, show, Table, usePaletteEntries, useResource, type Action, type Column } from '#kit';

interface Rule {
    queues: string[];
    who: string | { roles: string[] } | { keys: string[] };
    rate: { count: number; per: string } | null;
}

const whoIn = (rule: Rule) => (typeof rule.who === 'string' ? rule.who : 'roles' in rule.who ? `roles: ${rule.who.roles.join(', ')}` : `keys: ${rule.who.keys.join(', ')}`);
const listIn = (text: string) => text.split(/[\s,]+/).filter(Boolean);

/** All rules at once: that is how the server takes them, because their order counts. */
const replacing = (rules: Rule[], more: Pick<Action, 'label' | 'does' | 'done'> & Partial<Action>): Action => ({ needs: 'administer', method: 'PUT', path: '/enqueue-rules', body: rules, ...more });

export function Rules() {
    const found = useResource('rules', (signal) => get<Rule[]>('/enqueue-rules', signal));
    const rules = found.data ?? [];
    const edit = (at?: number) => show((close) => <Edit rules={rules} at={at} close={close} after={found.reload} />);
    usePaletteEntries([{ text: 'Add an enqueue rule', kind: 'action', run: () => edit() }], [found.data]);
    const moved = (at: number, by: number) => {
        const next = [...rules];
        const [rule] = next.splice(at, 1);
        if (rule) next.splice(at + by, 0, rule);
        return replacing(next, { label: by < 0 ? '↑' : '↓', does: `Moves rule ${at + 1} ${by < 0 ? 'before' : 'after'} the one ${by < 0 ? 'above' : 'below'} it. The first that covers a queue decides.`, done: 'The order of the rules is changed', command: ['enqueue-rule', 'move', String(at + 1), String(at + 1 + by)] });
    };
    const columns: Column<Rule & { at: number }>[] = [
        { key: 'at', title: '', num: true, width: '44px', cell: (rule) => rule.at + 1 },
        { key: 'queues', title: 'Queues', cell: (rule) => <span class="mono" title={rule.queues.join(', ')}>{rule.queues.join(', ')}</span> },
        { key: 'who', title: 'May be fed by', from: 's', cell: (rule) => <span class={rule.who === 'anybody' ? 'warn-line' : ''} title={whoIn(rule)}>{rule.who === 'anybody' ? 'anybody, without a key' : whoIn(rule)}</span> },
        { key: 'rate', title: 'Each at most', width: '110px', from: 's', cell: (rule) => (rule.rate ? `${rule.rate.count} / ${rule.rate.per}` : <span class="dimmer">–</span>) },
        {
            key: 'do',
            title: '',
            width: '230px',
            num: true,
            cell: (rule) => (
                <span class="row-acts">
                    {rule.at > 0 && <ActionButton action={moved(rule.at, -1)} after={found.reload} />}
                    {rule.at < rules.length - 1 && <ActionButton action={moved(rule.at, 1)} after={found.reload} />}
                    <button type="button" onClick={() => edit(rule.at)}>
                        Edit…
                    </button>
                    <ActionButton
                        action={replacing(
                            rules.filter((_, at) => at !== rule.at),
                            { label: 'Remove', does: `Removes the rule for ${rule.queues.join(', ')}. Then the rules below it decide, or the role of a key.`, done: 'The rule is removed', final: true, command: ['enqueue-rule', 'remove', String(rule.at + 1)] },
                        )}
                        after={found.reload}
                    />
                </span>
            ),
        },
    ];
    return (
        <>
            <div class="filters">
                <button type="button" class="main" disabled={!found.data} onClick={() => edit()}>
                    Add a rule…
                </button>
                <span class="dim">Without a rule, whoever has the permission “enqueue” may.</span>
            </div>
            <Panel label="Enqueue rules" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : !found.data ? (
                    <Loading rows={3} />
                ) : (
                    <Table
                        label="Enqueue rules"
                        columns={columns}
                        rows={rules.map((rule, at) => ({ ...rule, at }))}
                        rowKey={(rule) => String(rule.at)}
                        empty={
                            <Empty title="There are no rules" command="windlass enqueue-rule add contact --anybody --rate 10/1m">
                                A rule lets others enqueue to some queues: anybody, such as the form of a web site, or certain roles or keys.
                            </Empty>
                        }
                    />
                )}
            </Panel>
        </>
    );
}

type Who = 'anybody' | 'roles' | 'keys';

function Edit({ rules, at, close, after }: { rules: Rule[]; at?: number; close(): void; after(): void }) {
    const old = at === undefined ? undefined : rules[at];
    const [queues, setQueues] = useState(old?.queues.join(', ') ?? '');
    const [who, setWho] = useState<Who>(!old || typeof old.who === 'string' ? 'anybody' : 'roles' in old.who ? 'roles' : 'keys');
    const [names, setNames] = useState(!old || typeof old.who === 'string' ? '' : 'roles' in old.who ? old.who.roles.join(', ') : old.who.keys.join(', '));
    const [rate, setRate] = useState(old?.rate ? `${old.rate.count}/${old.rate.per}` : '');
    const [, times, per] = /^(\d+)\s*\/\s*(\S+)$/.exec(rate.trim()) ?? [];
    const globs = listIn(queues);
    const listed = listIn(names);
    const why = globs.length === 0 ? 'Name the queues.' : who !== 'anybody' && listed.length === 0 ? `Name the ${who}.` : rate.trim() && !times ? 'Write a rate as 10/1m.' : who === 'anybody' && !times ? 'Anybody needs a rate, which counts for each address.' : '';
    const rule: Rule = { queues: globs, who: who === 'anybody' ? who : who === 'roles' ? { roles: listed } : { keys: listed }, rate: times ? { count: Number(times), per: per ?? '1s' } : null };
    const action = why
        ? null
        : replacing(at === undefined ? [...rules, rule] : rules.map((one, place) => (place === at ? rule : one)), {
              label: old ? 'Save' : 'Add',
              does: `Lets ${who === 'anybody' ? 'anybody, also without a key,' : `${who} ${listed.join(', ')}`} enqueue to ${globs.join(', ')}${times ? `, each at most ${rate.trim()}` : ''}. An admin always may.`,
              done: old ? 'The rule is saved' : 'The rule is added',
              command: ['enqueue-rule', ...(at === undefined ? ['add'] : ['edit', String(at + 1)]), globs.join(','), ...(who === 'anybody' ? ['--anybody'] : who === 'roles' ? ['--roles', listed.join(',')] : ['--keys', listed.join(',')]), ...(times ? ['--rate', rate.trim()] : [])],
          });
    return (
        <FormDialog title={old ? `Rule ${(at ?? 0) + 1}` : 'Add a rule'} label={old ? 'Save' : 'Add'} action={action} why={why} close={close} after={after}>
            <Field label="Queues" value={queues} set={setQueues} required autofocus spellcheck={false} placeholder="contact, forms.*" />
            <Choices<Who>
                legend="Who may enqueue to them"
                value={who}
                set={setWho}
                of={[
                    ['anybody', 'Anybody, also without a key', 'For the form of a web site, say. The rate counts for each address.'],
                    ['roles', 'Keys of some roles', 'Such as worker or viewer, which otherwise may not.'],
                    ['keys', 'Some keys', 'By their ids, as the list of keys shows them.'],
                ]}
            />
            {who !== 'anybody' && <Field label={who === 'roles' ? 'Roles' : 'Ids of keys'} value={names} set={setNames} spellcheck={false} placeholder={who === 'roles' ? 'worker, producer' : '0a54135c79ea'} />}
            <Field label="Each at most" value={rate} set={setRate} spellcheck={false} placeholder={who === 'anybody' ? '10/1m' : 'no limit; or 10/1m'} />
        </FormDialog>
    );
}
