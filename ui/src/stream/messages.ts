// What tabs and the shared worker tell each other.
import type { Link } from './source';
import type { Pulse, PulseMessage } from './pulse';

export type FromTab =
    | { t: 'join'; namespace: string; jobs: string[] }
    | { t: 'watch'; jobs: string[] }
    | { t: 'again' }
    /** The tab is still there; one that says nothing for long is forgotten. */
    | { t: 'here' }
    | { t: 'bye' };

export type ToTab = { t: 'all'; pulse: Pulse } | { t: 'pulse'; message: PulseMessage } | { t: 'link'; link: Link; why: string };

/** Browsers slow the timers of hidden tabs down to one a minute. */
export const HERE_MS = 30_000;
export const GONE_MS = 200_000;
/** Part of the worker's name, so that a tab of a newer console does not talk to an older worker. */
export const PROTOCOL = 1;
