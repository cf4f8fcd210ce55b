// Every page: its address, its file in src/pages, and its place in the navigation. A page is loaded when it is first opened.
import type { Permission } from '../api/roles';

export interface Route {
    path: string;
    /** The file of the page, without its ending. */
    page: string;
    title: string;
    /** What its data needs; it is not offered without. */
    needs: Permission;
    /** Its group in the navigation; absent: it is reached from other pages. */
    nav?: 'jobs' | 'machine' | 'access';
    /** The second key after `g`. */
    key?: string;
}

/** The pages that there are; the build knows. */
declare const PAGES: string[];

const all: Route[] = [
    { path: '/', page: 'overview', title: 'Overview', needs: 'read', nav: 'jobs', key: 'o' },
    { path: '/queues', page: 'queues', title: 'Queues', needs: 'read', nav: 'jobs', key: 'q' },
    { path: '/queues/:name', page: 'queue', title: 'Queue', needs: 'read' },
    { path: '/jobs', page: 'jobs', title: 'Jobs', needs: 'read', nav: 'jobs', key: 'j' },
    { path: '/jobs/:id', page: 'job', title: 'Job', needs: 'read-job' },
    { path: '/dead', page: 'dead', title: 'Dead letters', needs: 'read', nav: 'jobs', key: 'd' },
    { path: '/held', page: 'held', title: 'Held', needs: 'read', nav: 'jobs', key: 'h' },
    { path: '/scheduled', page: 'scheduled', title: 'Scheduled', needs: 'read', nav: 'jobs', key: 'l' },
    { path: '/flows', page: 'flows', title: 'Flows', needs: 'read-job', nav: 'jobs', key: 'f' },
    { path: '/flows/:id', page: 'flow', title: 'Flow', needs: 'read-job' },
    { path: '/rounds', page: 'rounds', title: 'Rounds', needs: 'read', nav: 'jobs', key: 'r' },
    { path: '/plugins', page: 'plugins', title: 'Plugins', needs: 'read', nav: 'machine', key: 'p' },
    { path: '/plugins/:name', page: 'plugins', title: 'Plugin', needs: 'read' },
    { path: '/schedules', page: 'schedules', title: 'Schedules', needs: 'read', nav: 'machine', key: 's' },
    { path: '/workers', page: 'workers', title: 'Workers', needs: 'read', nav: 'machine', key: 'w' },
    { path: '/webhooks', page: 'webhooks', title: 'Webhooks', needs: 'read', nav: 'machine', key: 'b' },
    { path: '/events', page: 'events', title: 'Events', needs: 'read', nav: 'machine', key: 'e' },
    { path: '/secrets', page: 'secrets', title: 'Secrets', needs: 'administer', nav: 'access' },
    { path: '/keys', page: 'keys', title: 'Keys', needs: 'administer', nav: 'access', key: 'k' },
    { path: '/audit', page: 'audit', title: 'Audit', needs: 'administer', nav: 'access', key: 'a' },
    { path: '/namespaces', page: 'namespaces', title: 'Namespaces', needs: 'administer-server', nav: 'access' },
    { path: '/usage', page: 'usage', title: 'Usage', needs: 'read', nav: 'access', key: 'u' },
    { path: '/settings', page: 'settings', title: 'Server', needs: 'read', nav: 'access', key: 'i' },
    { path: '/enqueue', page: 'enqueue', title: 'Enqueue', needs: 'enqueue' },
];

export const routes = all.filter((route) => PAGES.includes(route.page));
