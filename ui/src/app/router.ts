// The address is the state: page, namespace, filters, sort and tab. `/ui/~acme/queues/emails?state=dead` is the queue `emails` of the
// namespace `acme`; without `~…` it is the namespace of the session.
import { batch, computed, signal } from '@preact/signals';
import { namespace } from '../api/client';

const BASE = '/ui';

export const pathname = signal('/');
export const query = signal(new URLSearchParams());
/** Counts the pages that were gone to, but not changes of filters: the focus and the scroll position follow it. */
export const visit = signal(0);

function read() {
    let rest = location.pathname.startsWith(BASE) ? location.pathname.slice(BASE.length) : '/';
    const chosen = /^\/~([^/]+)/.exec(rest);
    if (chosen) rest = rest.slice(chosen[0].length);
    batch(() => {
        namespace.value = chosen ? decodeURIComponent(chosen[1] ?? '') : '';
        pathname.value = rest || '/';
        query.value = new URLSearchParams(location.search);
    });
}

/** The address of a page: `href('/queues/emails', { state: 'dead' })`. */
export function href(path: string, params: Record<string, string | number | undefined | null> = {}, of = namespace.value): string {
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(params)) if (value !== undefined && value !== null && value !== '') search.set(name, String(value));
    const tail = search.toString();
    return BASE + (of ? `/~${encodeURIComponent(of)}` : '') + path + (tail ? `?${tail}` : '');
}

export function go(address: string, options: { replace?: boolean } = {}) {
    if (options.replace) history.replaceState(null, '', address);
    else history.pushState(null, '', address);
    const before = pathname.value;
    read();
    if (before !== pathname.value) visit.value += 1;
}

/** Changes parameters of the page that is shown; null removes one. */
export function setQuery(changes: Record<string, string | number | null | undefined>, options: { push?: boolean } = {}) {
    const next = new URLSearchParams(query.value);
    for (const [name, value] of Object.entries(changes)) {
        if (value === null || value === undefined || value === '') next.delete(name);
        else next.set(name, String(value));
    }
    const tail = next.toString();
    go(location.pathname + (tail ? `?${tail}` : ''), { replace: !options.push });
}

export const param = (name: string) => computed(() => query.value.get(name) ?? '');

/** `/queues/:name` against `/queues/emails.send` → `{ name: 'emails.send' }`. */
export function match(pattern: string, path: string): Record<string, string> | null {
    const wanted = pattern.split('/');
    const found = path.replace(/\/+$/, '').split('/');
    if (pattern === '/') return path === '/' || path === '' ? {} : null;
    if (wanted.length !== found.length) return null;
    const params: Record<string, string> = {};
    for (const [at, part] of wanted.entries()) {
        const here = found[at] ?? '';
        if (part.startsWith(':')) {
            if (!here) return null;
            try {
                params[part.slice(1)] = decodeURIComponent(here);
            } catch {
                return null;
            }
        } else if (part !== here) return null;
    }
    return params;
}

/** Links within the console change the page without loading it; everything else is the browser's. */
export function listen() {
    read();
    addEventListener('popstate', () => {
        read();
        visit.value += 1;
    });
    document.addEventListener('click', (event) => {
        if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
        const link = (event.target as Element | null)?.closest?.('a[href]') as HTMLAnchorElement | null;
        if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin || !link.pathname.startsWith(BASE + '/')) return;
        event.preventDefault();
        go(link.pathname + link.search);
    });
}
