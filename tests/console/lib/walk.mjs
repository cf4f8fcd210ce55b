// Every address of the console: the list of routes that the console itself has, so that a page which is added is tested without a new
// test, and the parts of pages that only their query shows.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './server.mjs';

const UI = join(ROOT, 'ui/src');

/** The routes of ui/src/app/routes.ts whose page has a file, as the build chooses them. */
export function routes() {
    const text = readFileSync(join(UI, 'app/routes.ts'), 'utf8');
    const all = [...text.matchAll(/\{ path: '([^']+)', page: '([^']+)', title: '([^']+)', needs: '([^']+)'(?:, nav: '(\w+)')?(?:, key: '(\w)')? \}/g)];
    if (all.length !== [...text.matchAll(/\{ path: /g)].length) throw new Error('a route of ui/src/app/routes.ts is written in a way that the tests do not read');
    const found = all.map(([, path, page, title, needs, nav, key]) => ({ path, page, title, needs, nav, key }));
    return found.filter(({ page }) => existsSync(join(UI, 'pages', `${page}.tsx`)) || existsSync(join(UI, 'pages', page, 'index.tsx')));
}

/** What stands for the part of an address that begins with a colon; a route with another needs a line here. */
const SAMPLE = { '/queues/:name': 'queue', '/jobs/:id': 'job', '/flows/:id': 'flow', '/plugins/:name': 'plugin' };

/** Parts of pages that the query chooses. A word in braces is a name that filling the server gave. */
const PARTS = {
    '/': ['?window=24h'],
    '/queues': ['?only=failing&sort=pending&order=desc'],
    '/queues/:name': ['?tab=figures', '?tab=records', '?tab=settings', '?state=dead,completed'],
    '/jobs': ['?q=tag:tenant%3Dacme&state=dead', '?q=no-such-text-anywhere'],
    '/jobs/:id': ['?tab=log', '?tab=payload', '?tab=timeline', '?tab=related', '?tab=checkpoint'],
    '/dead': ['?tab=jobs'],
    '/flows/:id': ['?view=time', '?view=tree'],
    '/rounds': ['?queue={rounds}'],
    '/schedules': ['?name={schedule}'],
    '/workers': ['?name={worker}'],
    '/settings': ['?tab=you'],
    '/plugins/:name': ['?tab=grants', '?tab=manifest', '?tab=history', '?version={version}'],
    '/webhooks': ['?tab=incoming', '?tab=rules', '?hook={webhook}'],
    '/enqueue': ['?queue={queue}'],
    '/audit': ['?action=namespace'],
};

/** Addresses with their names, for a server on which filling made what `made` names. Without it, only those that need nothing. */
export function addresses(made) {
    const known = (text) => [...text.matchAll(/\{(\w+)\}/g)].every(([, name]) => made[name]);
    const fill = (text) => text.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(made[name]));
    const found = [];
    for (const route of routes()) {
        const sampled = route.path.includes(':');
        if (sampled && !made) continue;
        const kind = SAMPLE[route.path];
        if (sampled && !kind) throw new Error(`${route.path} needs a line in SAMPLE of tests/console/lib/walk.mjs`);
        // Of several samples, the first one stands for all parts.
        for (const [at, of] of (sampled ? [made[kind]].flat() : ['']).entries()) {
            const path = route.path.replace(/:\w+/, encodeURIComponent(of));
            found.push(path, ...(made && at === 0 ? (PARTS[route.path] ?? []).filter(known) : []).map((part) => path + fill(part)));
        }
    }
    return found;
}
