// Who may see and do what, and that a key leaves no trace in the browser.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { Server } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';
import { addresses, routes } from './lib/walk.mjs';
import { fill } from './lib/fill.mjs';

const server = await Server.start();
const made = await fill(server);
after(() => server.stop());

/** Everything that a page of this browser can get at. */
const traces = (tab) =>
    tab.page.evaluate(async () => {
        const fields = [...document.querySelectorAll('input, textarea')].map((field) => field.value);
        const databases = (await indexedDB.databases?.())?.map((one) => one.name) ?? [];
        const kept = [...(await caches.keys()), ...databases];
        return JSON.stringify([location.href, document.cookie, { ...localStorage }, { ...sessionStorage }, history.state, window.name, fields, kept, document.documentElement.outerHTML, performance.getEntries().map((one) => one.name)]);
    });

test('a key signs in, is refused when it is wrong, and leaves no trace in the browser', async () => {
    const ana = await Person.at(server, { key: null });
    const tab = await ana.open('/queues?q=mail');
    await tab.field('Key').fill('wl_000000000000_not-a-key-of-this-server');
    await tab.button('Sign in').click();
    await tab.page.getByRole('alert').waitFor();
    // The browser reports each refusal, and this one was meant.
    tab.wrong.length = 0;
    await tab.field('Key').fill(server.key);
    await tab.press('Enter');
    await tab.sees('emails.send', tab.main);
    assert.equal(tab.path, '/queues?q=mail');
    for (const path of [...routes().flatMap((route) => (route.path.includes(':') ? [] : [route.path])), '/settings?tab=you', `/jobs/${made.job[0]}`]) {
        await tab.go(path);
        const found = await traces(tab);
        assert.ok(!found.includes(server.key) && !found.includes(server.key.slice(-24)), `a trace of the key on ${path}`);
    }
    assert.deepEqual(tab.wrong, []);
    await tab.button('Sign out').click();
    await tab.sees('You are signed out.');
    assert.ok(!(await traces(tab)).includes('emails.send'), 'what was seen before is gone');
    await tab.page.reload();
    await tab.field('Key').waitFor();
    await ana.close();
});

test('a session that ends asks for a key, and goes on where it was', async () => {
    const made = await server.post('/auth/keys', { name: 'short', role: 'viewer' });
    const ana = await Person.at(server, { key: made.key });
    const tab = await ana.open('/held');
    await server.call('DELETE', `/auth/keys/${made.id}`);
    await tab.sees(/The session has ended/);
    await tab.field('Key').fill(server.key);
    await tab.button('Sign in').click();
    await tab.page.getByRole('heading', { name: 'Held' }).waitFor();
    assert.equal(tab.path, '/held');
    await ana.close();
});

/** Words on buttons that change something; a list of events is stopped for who looks at it alone. */
const CHANGES = /^(?!remove the filter|stop$)(retry|one more|run (now|again)|edit|hold|approve|reject|move|cancel|stop|delete|pause|resume|drain|clear|limits|set |sweep|seal|upload|activate|promote|roll ?back|grant|revoke|create|new |add|remove|enqueue|save|priority|change|test|replay|rotate)(\b|…)/i;

test('a viewer is offered no action on any page, and no page asks for what a viewer may not see', async () => {
    const ana = await Person.at(server, { key: await server.keyOf('viewer') });
    const tab = await ana.open('/');
    const may = new Set((await server.get('/auth/status', { key: await server.keyOf('viewer') })).permissions);
    const open = new Set(routes().filter((route) => may.has(route.needs)).map((route) => route.path.replace(/:\w+/, '')));
    for (const address of addresses(made)) {
        if (![...open].some((path) => address.split('?')[0] === path || (path.length > 1 && path.endsWith('/') && address.startsWith(path)))) continue;
        await tab.go(address);
        const buttons = await tab.main.locator('button:visible, a.button:visible').allInnerTexts();
        assert.deepEqual(buttons.filter((text) => CHANGES.test(text.trim())), [], `on ${address}`);
        assert.deepEqual(tab.wrong, [], `on ${address}`);
    }
    // Nor do keys and the palette.
    await tab.go(`/jobs/${made.job[0]}`);
    await tab.press('r', 'e');
    assert.equal(await tab.dialog.count(), 0);
    await tab.press('Control+k');
    await tab.page.keyboard.type('this job');
    assert.ok(!(await tab.dialog.innerText()).includes('action'));
    await ana.close();
});

test('each role is offered the pages that it may see, and the others say why not', async () => {
    for (const role of ['producer', 'worker', 'viewer', 'operator', 'deployer', 'admin']) {
        const key = await server.keyOf(role);
        const { permissions } = await server.get('/auth/status', { key });
        const ana = await Person.at(server, { key });
        const tab = await ana.open('/');
        const wanted = routes().filter((route) => route.nav && permissions.includes(route.needs));
        const shown = await tab.page.locator('nav#pages li a').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
        assert.deepEqual(shown, wanted.map((route) => `/ui${route.path}`), role);
        const refused = routes().find((route) => route.nav && !permissions.includes(route.needs));
        if (refused) {
            await tab.go(refused.path);
            await tab.sees(`needs the permission “${refused.needs}”`);
        }
        assert.deepEqual(tab.wrong, [], role);
        await ana.close();
    }
});

test('a producer sees the job that it has made, and can do nothing with it', async () => {
    const ana = await Person.at(server, { key: await server.keyOf('producer') });
    const tab = await ana.open(`/jobs/${made.job[0]}`);
    await tab.sees(made.job[0], tab.main);
    const buttons = await tab.main.locator('button:visible').allInnerTexts();
    assert.deepEqual(buttons.filter((text) => CHANGES.test(text.trim())), []);
    assert.deepEqual(tab.wrong, []);
    await ana.close();
});

test('what is in another namespace does not exist, and whoever may use all of them chooses', async () => {
    const theirs = await server.enqueue('acme.only', { secret: 'of acme' }, {}, { namespace: 'acme' });
    const bob = await Person.at(server, { key: (await server.post('/auth/keys', { name: 'bob', role: 'admin', namespace: 'acme' })).key });
    const his = await bob.open('/queues');
    await his.sees('acme.only', his.main);
    assert.ok(!(await his.page.content()).includes('emails.send'));
    await his.sees('acme', his.page.locator('header'));
    const open = async (tab, path) => {
        await tab.page.goto(`${server.url}/ui${path}`);
        await tab.sees('No such job');
    };
    await open(his, `/jobs/${made.job[0]}`);
    assert.deepEqual(his.wrong.filter((text) => !text.includes('404')), []);
    await his.page.goto(`${server.url}/ui/~default/jobs/${made.job[0]}`);
    await his.sees(/is for the namespace `acme` alone/);
    await his.page.getByRole('link', { name: 'To your own namespace' }).click();
    await his.ready();
    await bob.close();

    const ana = await Person.at(server);
    const tab = await ana.open('/queues');
    assert.ok(!(await tab.page.content()).includes('acme.only'));
    await open(tab, `/jobs/${theirs}`);
    await tab.page.locator('header').getByRole('combobox').selectOption('acme');
    await eventually('the address names it', () => tab.path.startsWith('/~acme'));
    await tab.go('/~acme/queues');
    await tab.sees('acme.only', tab.main);
    assert.ok(!(await tab.main.innerText()).includes('emails.send'));
    // Links stay in it, and so does what is copied for a terminal.
    await tab.page.getByRole('link', { name: 'acme.only' }).click();
    await tab.button('Limits…').click();
    await tab.dialog.getByText('The same from a terminal').click();
    assert.match((await tab.dialog.locator('.command code').allInnerTexts()).join('\n'), /--namespace acme[\s\S]*X-Windlass-Namespace: acme/);
    await ana.close();
});
