// The versions of a plugin with the figures of their attempts, and what happened to it.
import { ActionButton, bytes, count, Empty, go, href, may, Panel, percent, span, StatePill, Table, Time, type Column } from '#kit';
import { removing, short, type Dist, type Figures, type Happened, type Plugin, type Version } from './model';
import type { Part } from './one';

const versionHref = (plugin: Plugin) => (version: Version) => href(`/plugins/${encodeURIComponent(plugin.name)}`, { version: version.version.slice(0, 12) });

function Standing({ plugin, version }: { plugin: Plugin; version: Version }) {
    if (version.problem) return <StatePill of="dead">cannot run</StatePill>;
    if (version.version === plugin.active) return <StatePill of="completed">active</StatePill>;
    if (version.version === plugin.canary?.version) return <StatePill of="held">canary</StatePill>;
    if (version.running) return <StatePill of="pending open">{count(version.running)} running</StatePill>;
    return <span class="dimmer">stored</span>;
}

const p95 = (of: (one: Figures) => Dist, text: (n: number) => string) => (one: Figures | undefined) => {
    const value = one ? of(one).p95 : null;
    return value === null ? <span class="dimmer">–</span> : text(value);
};

export function Versions({ plugin, figures }: Part) {
    const of = (version: Version) => figures.find((one) => one.version === version.version);
    const columns: Column<Version>[] = [
        { key: 'version', title: 'Version', width: '92px', cell: (version) => <a class="mono" title={version.version} href={versionHref(plugin)(version)}>{short(version.version)}</a> },
        { key: 'uploaded', title: 'Uploaded', cell: (version) => <span class="dim"><Time at={version.uploaded_at} />{version.uploaded_by && ` · ${version.uploaded_by}`}</span> },
        { key: 'attempts', title: 'Attempts', num: true, width: '86px', from: 's', cell: (version) => count(of(version)?.attempts ?? 0) },
        {
            key: 'failed',
            title: 'Failed',
            num: true,
            width: '74px',
            from: 's',
            cell: (version) => {
                const one = of(version);
                return one?.attempts ? <span class={percent(one.failed_attempts, one.attempts) >= 5 ? 'dead-ink' : ''}>{percent(one.failed_attempts, one.attempts).toFixed(1)} %</span> : <span class="dimmer">–</span>;
            },
        },
        { key: 'cpu', title: 'cpu p95', num: true, width: '80px', from: 'm', cell: (version) => p95((one) => one.cpu_ms, span)(of(version)) },
        { key: 'memory', title: 'Memory p95', num: true, width: '96px', from: 'm', cell: (version) => p95((one) => one.memory_bytes, bytes)(of(version)) },
        { key: 'state', title: 'State', width: '110px', cell: (version) => <Standing plugin={plugin} version={version} /> },
    ];
    return (
        <>
            <Panel title="Versions" aside="per attempt, since the server started" flush>
                <Table label="Versions" columns={columns} rows={[...plugin.versions].reverse()} rowKey={(version) => version.version} href={versionHref(plugin)} empty={<Empty title="No version is stored" />} />
            </Panel>
            {may('deploy') && (
                <p class="page-foot">
                    <ActionButton action={removing(plugin)} after={() => go(href('/plugins'))} />
                </p>
            )}
        </>
    );
}

const WORDS: Record<string, [string, string]> = {
    uploaded: ['uploaded', 'pending'],
    activated: ['activated', 'completed'],
    manifest_set: ['manifest set', 'pending'],
    granted: ['grants changed', 'scheduled'],
    canary_started: ['canary started', 'held'],
    canary_stopped: ['canary ended', 'held'],
    promoted: ['promoted', 'completed'],
    rolled_back: ['rolled back', 'dead'],
    version_removed: ['version deleted', 'cancelled'],
};

export function History({ plugin }: Part) {
    const columns: Column<Happened & { n: number }>[] = [
        { key: 'at', title: 'When', width: '110px', cell: (one) => <Time at={one.at} /> },
        {
            key: 'what',
            title: 'What',
            width: '150px',
            cell: (one) => {
                const [word, state] = WORDS[one.type.replace(/^plugin\./, '')] ?? [one.type, 'pending'];
                return <StatePill of={state}>{word}</StatePill>;
            },
        },
        { key: 'version', title: 'Version', width: '92px', from: 's', cell: (one) => (one.version ? <span class="mono">{short(one.version)}</span> : '') },
        { key: 'detail', title: 'Detail', from: 's', cell: (one) => <span class="dim" title={one.detail}>{one.detail}</span> },
    ];
    const rows = plugin.history.map((one, n) => ({ ...one, n })).reverse();
    return (
        <Panel label="History" flush>
            <Table label="History" columns={columns} rows={rows} rowKey={(one) => String(one.n)} empty={<Empty title="Nothing has happened yet" />} />
        </Panel>
    );
}
