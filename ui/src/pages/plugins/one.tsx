// One plugin: what runs, what is on trial, what it may reach, and what happened to it.
import { useEffect } from 'preact/hooks';
import { ActionButton, act, ApiError, Download, Empty, Facts, Failed, get, href, Loading, may, PageHead, Panel, path, query, QueueLink, setTitle, Tabs, Time, usePaletteEntries, useResource } from '#kit';
import { openCanary, Trial } from './canary';
import { Grants } from './grants';
import { Standing } from './list';
import { ManifestTab } from './manifest';
import { activeOf, beforeActive, find, removing, short, type Figures, type Plugin } from './model';
import { Moving } from './moving';
import { Reach, Review } from './review';
import { rollingBack } from './swap';
import { DropHint, openUpload, useDrop } from './upload';
import { History, Versions } from './versions';

/** What a page of a plugin is told. */
export interface Part {
    plugin: Plugin;
    figures: Figures[];
    reload(): void;
}

export function One({ name }: { name: string }) {
    const found = useResource(`plugin ${name}`, (signal) => get<Plugin>(path(['plugins', name]), signal), { everyMs: 1000 });
    const over = useDrop({ name });
    useEffect(() => setTitle(name), [name]);
    const plugin = found.data;
    const wanted = query.value.get('version');
    // A version that was just uploaded: what is shown is from before.
    useEffect(() => {
        if (plugin && wanted && !find(plugin, wanted)) found.reload();
    }, [wanted]);
    const crumbs = [{ text: 'Plugins', href: href('/plugins') }];
    if (!plugin) {
        if (found.error instanceof ApiError && found.error.status === 404) {
            return (
                <>
                    <PageHead title={name} crumbs={crumbs} />
                    <Panel label="Plugin">
                        <Empty title={`There is no plugin ${name}`} command={`windlass plugin push ${name} FILE`}>
                            It may have been deleted, or belongs to another namespace.
                        </Empty>
                    </Panel>
                </>
            );
        }
        return found.error ? <Failed error={found.error} retry={found.reload} /> : <Loading rows={8} />;
    }
    const { reload } = found;
    const part: Part = { plugin, figures: plugin.versions.map((one) => ({ ...one.figures, version: one.version })), reload };
    const shown = find(plugin, wanted);
    const tab = query.value.get('tab') ?? '';
    return (
        <>
            {over && <DropHint name={name} />}
            <PageHead
                crumbs={shown ? [...crumbs, { text: name, href: href(`/plugins/${encodeURIComponent(name)}`) }] : crumbs}
                title={name}
                about={
                    <span class="row wrap">
                        <Standing plugin={plugin} />
                        <span>
                            serves{' '}
                            {plugin.queues.map((queue, at) => (
                                <span key={queue}>
                                    {at > 0 && ', '}
                                    <QueueLink name={queue} />
                                </span>
                            ))}
                        </span>
                    </span>
                }
                actions={<Actions {...part} />}
            />
            {plugin.problem && (
                <Panel class="now is-dead" label="Problem">
                    <p class="keep-lines">{plugin.problem}</p>
                </Panel>
            )}
            <Moving plugin={plugin} />
            <Trial plugin={plugin} figures={part.figures} after={reload} />
            {shown ? (
                <Review {...part} version={shown} />
            ) : (
                <>
                    <Tabs
                        label="Parts of the plugin"
                        tabs={[
                            { key: '', title: 'Versions' },
                            { key: 'grants', title: plugin.denied.length ? `Grants, ${plugin.denied.length} denied` : 'Grants' },
                            { key: 'manifest', title: 'Manifest' },
                            { key: 'history', title: 'History' },
                        ]}
                        current={tab}
                        href={(tab) => href(`/plugins/${encodeURIComponent(name)}`, { tab })}
                    />
                    {tab === 'grants' ? <Grants {...part} /> : tab === 'manifest' ? <ManifestTab {...part} /> : tab === 'history' ? <History {...part} /> : <Summary {...part} />}
                </>
            )}
        </>
    );
}

function Actions({ plugin, reload }: Part) {
    const deploys = may('deploy');
    const before = beforeActive(plugin);
    const upload = () => openUpload({ name: plugin.name, known: [plugin] });
    const back = before && rollingBack(plugin, before);
    // The newest one that is neither active nor on trial is what somebody wants to try.
    const next = plugin.versions.findLast((one) => one.version !== plugin.active && one.version !== plugin.canary?.version);
    usePaletteEntries(
        deploys
            ? [
                  { text: 'Upload a version', kind: 'action', run: upload },
                  ...(before && back ? [{ text: `Roll back to ${short(before.version)}`, kind: 'action', run: () => act(back, { after: reload }) }] : []),
                  ...(next && plugin.active ? [{ text: `Try ${short(next.version)} as a canary`, kind: 'action', run: () => openCanary(plugin, next, reload) }] : []),
                  { text: 'Delete this plugin', kind: 'action', run: () => act(removing(plugin)) },
              ]
            : [],
        [plugin, deploys],
    );
    if (!deploys) return null;
    return (
        <>
            {back && <ActionButton action={back} kind="danger" after={reload} />}
            <button type="button" class="main" onClick={upload}>
                Upload a version…
            </button>
        </>
    );
}

function Summary(part: Part) {
    const { plugin } = part;
    const active = activeOf(plugin);
    return (
        <div class="split">
            <div>
                <Versions {...part} />
            </div>
            <aside>
                {active && <Reach plugin={plugin} version={active} against={beforeActive(plugin)} />}
                <Panel title="About it">
                    <Facts
                        of={[
                            ['Created', <Time at={plugin.created_at} />],
                            ['Changed', <Time at={plugin.updated_at} />],
                            ['Running', plugin.running],
                            ['Jobs', <a href={href('/jobs', { q: `plugin:${plugin.name}` })}>all that it runs or ran</a>],
                            !!active && may('deploy') && ['Component', <Download from={path(['plugins', plugin.name, 'component'])} name={`${plugin.name}.wasm`} small />],
                        ]}
                    />
                </Panel>
            </aside>
        </div>
    );
}
