// All plugins: what each serves, which version runs, and what is the matter with it.
import { count, Empty, Failed, get, href, live, Loading, may, PageHead, Panel, plural, query, rate, setQuery, StatePill, Table, Time, usePaletteEntries, useResource, type Column } from '#kit';
import { short, type Plugin } from './model';
import { DropHint, openUpload, useDrop } from './upload';

const pluginHref = (plugin: Plugin) => href(`/plugins/${encodeURIComponent(plugin.name)}`);

export function Standing({ plugin }: { plugin: Plugin }) {
    if (!plugin.ready) return <StatePill of="dead">not ready</StatePill>;
    if (!plugin.active) return <StatePill of="pending">not active</StatePill>;
    if (plugin.canary) return <StatePill of="held">canary {plugin.canary.share} %</StatePill>;
    if (plugin.denied.length) return <StatePill of="retrying">{plugin.denied.length} denied</StatePill>;
    return <StatePill of="completed">ready</StatePill>;
}

const done = (plugin: Plugin) => plugin.queues.reduce((sum, queue) => sum + (live.queues.value[queue]?.completed_per_second ?? 0), 0);
const waiting = (plugin: Plugin) => plugin.queues.reduce((sum, queue) => sum + (live.queues.value[queue]?.pending ?? 0), 0);

const columns: Column<Plugin>[] = [
    { key: 'name', title: 'Plugin', cell: (plugin) => <a href={pluginHref(plugin)}>{plugin.name}</a> },
    { key: 'state', title: 'State', width: '116px', cell: (plugin) => <Standing plugin={plugin} /> },
    { key: 'queues', title: 'Serves', from: 's', cell: (plugin) => <span class="dim" title={plugin.queues.join(', ')}>{plugin.queues.join(', ')}</span> },
    { key: 'version', title: 'Version', width: '92px', from: 's', cell: (plugin) => (plugin.active ? <span class="mono">{short(plugin.active)}</span> : <span class="dimmer">–</span>) },
    { key: 'versions', title: 'Versions', num: true, width: '80px', from: 'l', cell: (plugin) => count(plugin.versions.length) },
    { key: 'waiting', title: 'Waiting', num: true, width: '84px', from: 'm', cell: (plugin) => count(waiting(plugin)) },
    { key: 'running', title: 'Running', num: true, width: '80px', cell: (plugin) => <span class={plugin.running ? '' : 'dimmer'}>{count(plugin.running)}</span> },
    { key: 'rate', title: 'Done /s', num: true, width: '80px', from: 'm', cell: (plugin) => rate(done(plugin)) },
    { key: 'updated', title: 'Changed', num: true, width: '100px', from: 'l', cell: (plugin) => <Time at={plugin.updated_at} /> },
];

export function List() {
    const found = useResource('plugins', (signal) => get<{ plugins: Plugin[] }>('/plugins', signal), { everyMs: 2000 });
    const search = query.value.get('q') ?? '';
    const all = found.data?.plugins ?? [];
    const shown = all.filter((plugin) => [plugin.name, ...plugin.queues].some((text) => text.toLowerCase().includes(search.toLowerCase())));
    const over = useDrop({ known: all });
    const deploys = may('deploy');
    const upload = () => openUpload({ known: all });
    usePaletteEntries(deploys ? [{ text: 'Upload a plugin', kind: 'action', run: upload }] : [], [deploys, found.data]);
    return (
        <>
            {over && <DropHint />}
            <PageHead
                title="Plugins"
                about={all.length > 0 ? plural(all.length, 'plugin') : undefined}
                actions={
                    deploys && (
                        <button type="button" class="main" onClick={upload}>
                            Upload a plugin…
                        </button>
                    )
                }
            />
            {all.length > 0 && (
                <div class="filters">
                    <input type="search" data-filter aria-label="Filter plugins" placeholder="Filter by name or queue" value={search} onInput={(event) => setQuery({ q: event.currentTarget.value })} />
                </div>
            )}
            <Panel label="Plugins" flush>
                {found.error && !found.data ? (
                    <Failed error={found.error} retry={found.reload} />
                ) : !found.data ? (
                    <Loading rows={5} />
                ) : (
                    <Table
                        label="Plugins"
                        columns={columns}
                        rows={shown}
                        rowKey={(plugin) => plugin.name}
                        href={pluginHref}
                        empty={
                            all.length ? (
                                <Empty title="No plugin fits" />
                            ) : (
                                <Empty title="There are no plugins yet" command="windlass plugin new mailer --lang rust && windlass plugin push mailer">
                                    A plugin is a handler as a WebAssembly component: it runs jobs inside this server, in a sandbox, and can be replaced while its jobs run.
                                    {deploys && ' Drop a .wasm file anywhere on this page.'}
                                </Empty>
                            )
                        }
                    />
                )}
            </Panel>
        </>
    );
}
