// Who is signed in. The key itself is sent once and kept nowhere: the session is a cookie that no script can read.
import { computed, effect, signal } from '@preact/signals';
import { ApiError, call, get, namespace, signedOut } from '../api/client';
import type { Permission } from '../api/roles';

export interface Session {
    signed_in: boolean;
    methods: string[];
    /** What people call the OpenID Connect provider, if they can sign in with it. */
    provider: string | null;
    actor: string | null;
    name: string | null;
    role: string | null;
    namespace: string;
    chooses_namespace: boolean;
    queues: string[];
    permissions: Permission[];
    session: boolean;
    expires_at: string | null;
}

export type Known = { is: 'asking' } | { is: 'nobody'; provider: string | null; why: string } | { is: 'unreachable'; why: string } | { is: 'somebody'; session: Session };

export const who = signal<Known>({ is: 'asking' });
export const session = computed(() => (who.value.is === 'somebody' ? who.value.session : null));
const permissions = computed(() => new Set(session.value?.permissions ?? []));

/** Whether to offer something. Reads signals, so a component that asks is drawn again when the answer changes. */
export const may = (needed: Permission) => permissions.value.has(needed);

const ENDED = 'The session has ended. Sign in to continue here.';

export async function askWho(): Promise<void> {
    try {
        const status = await get<Session>('/auth/status');
        if (status.signed_in) who.value = { is: 'somebody', session: status };
        else gone(status.provider);
    } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.status === 401) gone(session.peek()?.provider ?? null);
        else who.value = { is: 'unreachable', why: error.message };
    }
}

/** Nobody is signed in. Whoever was is told why the page went away; what is said already stays. */
function gone(provider: string | null) {
    const before = who.peek();
    who.value = { is: 'nobody', provider, why: before.is === 'somebody' ? ENDED : before.is === 'nobody' ? before.why : '' };
}

export async function signIn(key: string): Promise<void> {
    const status = await call<Session>('POST', '/auth/session', { body: { key } });
    who.value = { is: 'somebody', session: status };
    // The namespace of the address may be another one than the key's own.
    if (namespace.value) await askWho();
}

export async function signOut(): Promise<void> {
    await call('DELETE', '/auth/session');
    who.value = { is: 'nobody', provider: session.peek()?.provider ?? null, why: 'You are signed out.' };
}

/** A session that ended while it was used: the address stays, and signing in again continues there. */
effect(() => {
    if (signedOut.value === 0 || who.peek().is !== 'somebody') return;
    gone(session.peek()?.provider ?? null);
});
