// What a person can do, as data: shown in a confirmation, sent, and copied as a command, always from the same description.
import { call, namespace } from './client';
import type { Permission } from './roles';

export interface Action {
    /** On the button: `Retry`. */
    label: string;
    /** What will happen, as a sentence: `Retries 12 dead jobs of emails.send; their attempts start again at 1.` */
    does: string;
    /** What was done, for the notice: `12 jobs retried`. */
    done: string;
    needs: Permission;
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
    /** Without `/api/v1`. */
    path: string;
    body?: unknown;
    /** Stands for a body that nobody should read over a shoulder, or that is too large to be shown. */
    shows?: string;
    /** The same with the command, without the leading `windlass`; absent if the command cannot do it. */
    command?: string[];
    /** It loses something that cannot be brought back. */
    final?: boolean;
    /** Asks before it is done. `final` ones always do. */
    ask?: boolean;
}

/** As much of an action as a line for the terminal needs. */
export type Described = Pick<Action, 'method' | 'path' | 'body' | 'shows' | 'command'>;

export const run = <T = unknown>(action: Action) => call<T>(action.method, action.path, action.method === 'GET' ? {} : { body: action.body });

/** One argument of a POSIX shell. */
export function quoted(text: string): string {
    return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function asCurl(action: Described): string {
    const parts = ['curl', '-X', action.method, '-H', '"X-API-Key: $WINDLASS_API_KEY"'];
    if (namespace.value) parts.push('-H', quoted(`X-Windlass-Namespace: ${namespace.value}`));
    if (action.body !== undefined) {
        const text = action.shows ?? (typeof action.body === 'string' ? action.body : JSON.stringify(action.body));
        parts.push('-H', quoted('content-type: application/json'), action.shows ? '--data-binary' : '-d', quoted(text));
    }
    parts.push(quoted(`${location.origin}/api/v1${action.path}`));
    return parts.join(' ');
}

export function asCommand(action: Described): string | null {
    if (!action.command) return null;
    const parts = ['windlass', ...action.command.map(quoted)];
    if (namespace.value) parts.push('--namespace', quoted(namespace.value));
    return parts.join(' ');
}
