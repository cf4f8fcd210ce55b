// A plugin as the API shows it, and what can be done with it.
import { path, type Action, type Denial, type Grant, type Limits, type LimitName, type HttpLimitName } from '#kit';

export type { Grant, Limits, LimitName, HttpLimitName };

export interface Capabilities {
    http: string[];
    read: string[];
    write: string[];
    environment: string[];
    secrets: string[];
    spawn: string[];
}

export interface Manifest {
    queues: string[];
    reuse: number;
    limits: Limits;
    config: Record<string, string>;
    capabilities: Capabilities;
    schemas: number[] | null;
    [more: string]: unknown;
}

export interface Version {
    version: string;
    size: number;
    uploaded_at: string;
    uploaded_by?: string;
    imports: string[];
    running: number;
    problem?: string;
    manifest_revision: number;
    manifest: Manifest;
    /** Of the attempts that have ended since the server's start. */
    figures: Omit<Figures, 'version'>;
}

export interface Trial {
    version: string;
    share: number;
    max_failure_rate: number;
    min_attempts: number;
    promote_after?: number;
    started_at: string;
    attempts: number;
    given: number;
    ended: number;
    failed: number;
    verdict: 'waiting' | 'within' | 'above';
    /** What it still waits for, as a sentence. */
    waits_for: string;
}

export interface Happened {
    at: string;
    type: string;
    version?: string;
    detail?: string;
}

export interface Plugin {
    name: string;
    queues: string[];
    ready: boolean;
    problem: string | null;
    active: string | null;
    canary: Trial | null;
    running: number;
    /** Oldest first. */
    versions: Version[];
    grant: Grant;
    /** What the active version asks for and is not granted. */
    denied: string[];
    /** What attempts tried and were not granted. */
    denials: Denial[];
    history: Happened[];
    created_at: string;
    updated_at: string;
}

export interface Dist {
    count: number;
    p50: number | null;
    p95: number | null;
    p99: number | null;
    max: number | null;
}

export interface Figures {
    version: string;
    attempts: number;
    failed_attempts: number;
    cpu_ms: Dist;
    memory_bytes: Dist;
    run_ms: Dist;
}

export const short = (version: string) => version.slice(0, 8);
export const find = (plugin: Plugin, text: string | null | undefined) => (text ? plugin.versions.find((one) => one.version.startsWith(text)) : undefined);
export const activeOf = (plugin: Plugin) => find(plugin, plugin.active);

/** What a roll back leads to: the version that was uploaded before the active one. */
export function beforeActive(plugin: Plugin): Version | undefined {
    const at = plugin.versions.findIndex((one) => one.version === plugin.active);
    return at > 0 ? plugin.versions[at - 1] : undefined;
}

/** Attempts on versions that are neither active nor on trial. */
export const left = (plugin: Plugin) => plugin.versions.filter((one) => one.running > 0 && one.version !== plugin.active && one.version !== plugin.canary?.version);

export const swapWord = (kind: string | undefined) => ({ drain: 'each finishes on its version', checkpoint: 'at the next checkpoint', now: 'stopped, and started again' })[kind ?? ''] ?? 'each finishes on its version';

const attempts = (n: number) => `${n} running ${n === 1 ? 'attempt' : 'attempts'}`;

export function removing(plugin: Plugin): Action {
    const force = plugin.running > 0;
    return {
        label: 'Delete the plugin',
        does: `Deletes ${plugin.name} with all its ${plugin.versions.length} versions and its grants.${force ? ` Its ${attempts(plugin.running)} are stopped, and their jobs become pending again.` : ''} The jobs of ${plugin.queues.join(', ')} wait for another plugin or for workers.`,
        done: `${plugin.name} is deleted`,
        needs: 'deploy',
        method: 'DELETE',
        path: path(['plugins', plugin.name], { force }),
        command: ['plugin', 'delete', plugin.name, ...(force ? ['--force'] : [])],
        final: true,
    };
}

export function removingVersion(plugin: Plugin, version: Version): Action {
    const force = version.running > 0;
    return {
        label: 'Delete the version',
        does: `Deletes version ${short(version.version)} of ${plugin.name}.${force ? ` Its ${attempts(version.running)} are stopped, and their jobs run on the active version.` : ''}`,
        done: `Version ${short(version.version)} is deleted`,
        needs: 'deploy',
        method: 'DELETE',
        path: path(['plugins', plugin.name, 'versions', version.version], { force }),
        command: ['plugin', 'delete', plugin.name, '--of', short(version.version), ...(force ? ['--force'] : [])],
        final: true,
    };
}
