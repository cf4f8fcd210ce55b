// Everything by keyboard alone: no test here uses the mouse.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { component, toml, wasm } from './lib/component.mjs';
import { plugin, Server } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';
import { routes } from './lib/walk.mjs';

const server = await Server.start();
const ana = await Person.at(server);
const tab = await ana.open('/');
after(() => server.stop());
beforeEach(async () => {
    tab.wrong.length = 0;
    await tab.go('/settings');
});
const clean = () => assert.deepEqual(tab.wrong, []);
const type = (text) => tab.page.keyboard.type(text);
const at = (path) => eventually(`the address is ${path}`, () => (path instanceof RegExp ? path.test(tab.path) : tab.path === path));

const tabTo = (name) => tab.tabTo(name);

/** The row that the cursor of a list is on. */
const onRow = (text) => eventually(`the cursor is on ${text}`, () => tab.page.locator('tr.cursor', { hasText: text }).isVisible());

test('a dead job is found, edited and run again', async () => {
    for (const n of [1, 2, 3]) await server.dead('mail', `no route to host-${n}`, { to: `host-${n}` });
    await tab.press('g', 'j');
    await at('/jobs');
    await tab.ready();
    await tab.press('/');
    await type('state:dead error:host-2');
    await tab.sees(/^1 job$/);
    await tab.press('Escape');
    await tab.press('j');
    await onRow('host-2');
    await tab.press('Enter');
    await at(/^\/jobs\/job_/);
    await tab.ready();
    const id = tab.path.slice('/jobs/'.length);
    // The key counts once the page knows what may be done with the job.
    await eventually('the dialog opens', async () => {
        if (await tab.dialog.isVisible()) return true;
        await tab.press('e');
        return false;
    });
    const text = tab.field('Payload', tab.dialog);
    await eventually('the payload has the focus', () => text.evaluate((field) => field === document.activeElement && field.value.includes('host-2')));
    await tab.press('Control+a');
    await type('{"to": "host-9"}');
    await tabTo('Run again');
    await tab.press('Enter');
    await server.in(id, 'pending');
    assert.deepEqual((await server.job(id)).payload, { to: 'host-9' });
    clean();
});

test('a held job is approved', async () => {
    const id = await server.enqueue('payments', { cents: 7 });
    await server.post(`/jobs/${id}/hold`, { reason: 'look at it' });
    await tab.press('g', 'h');
    await at('/held');
    await tab.ready();
    await tab.press('j');
    await onRow('look at it');
    await tab.press('Enter');
    await at(`/jobs/${id}`);
    await tab.ready();
    await tabTo('Approve');
    await tab.press('Enter');
    await server.in(id, 'pending');
    clean();
});

test('a group of dead letters is retried', async () => {
    for (const n of [1, 2, 3, 4]) await server.dead('night', `upstream answered ${n}`);
    await tab.press('g', 'd');
    await at('/dead');
    await tab.ready();
    const offered = tab.choice('Queue', tab.main).locator('option', { hasText: 'night' });
    await eventually('the queue can be chosen', async () => (await offered.count()) === 1);
    await tabTo('Queue');
    await type('night');
    await at('/dead?queue=night');
    await eventually('one group is left', async () => (await tab.main.locator('.group').count()) === 1);
    await tabTo('Retry…');
    await tab.press('Enter');
    await tab.sees(/4 jobs will be retried/, tab.dialog);
    await tabTo('Retry 4 jobs');
    await tab.press('Enter');
    await tab.sees('4 jobs retried');
    clean();
});

test('a plugin is uploaded, granted what it asks for, activated, and rolled back', async () => {
    await server.upload('sums', 'sums', plugin('checksum'));
    const before = (await server.get('/plugins/sums')).active;
    await tab.go('/plugins/sums');
    await tabTo('Upload a version…');
    await tab.press('Enter');
    await tab.dialog.waitFor();
    const chosen = tab.page.waitForEvent('filechooser');
    await tabTo(/Choose a component/);
    await tab.press('Enter');
    await (await chosen).setFiles([wasm('sums', component('checksum', 'keys')), toml('queues = ["sums"]\n\n[capabilities]\nhttp = ["api.example.com"]\n')]);
    await tab.sees('sums.wasm', tab.dialog);
    await tabTo('Upload and review');
    await tab.press('Enter');
    await tab.sees('is stored, and runs nothing yet');
    await tabTo('Grant what it asks for…');
    await tab.press('Enter');
    await tabTo(/api\.example\.com/);
    await tab.press('Space');
    await tabTo('Save the grants');
    await tab.press('Enter');
    await eventually('it is granted', async () => JSON.stringify((await server.get('/plugins/sums')).grant).includes('api.example.com'));
    await eventually('the dialog is closed', async () => (await tab.dialog.count()) === 0);
    await tabTo('Activate…');
    await tab.press('Enter');
    await tab.dialog.waitFor();
    await tabTo('Activate');
    await tab.press('Enter');
    await eventually('the new one is active', async () => (await server.get('/plugins/sums')).active !== before);
    await tab.go('/plugins/sums');
    await tabTo('Roll back');
    await tab.press('Enter');
    await eventually('the old one is active again', async () => (await server.get('/plugins/sums')).active === before);
    clean();
});

test('rows are chosen with x, and the chosen ones are cancelled', async () => {
    for (const n of [1, 2, 3]) await server.enqueue('many', { n });
    await tab.go('/queues/many');
    await tab.page.locator('tbody tr').nth(2).waitFor();
    await tab.press('j', 'x', 'j', 'x');
    await tab.sees('2 chosen');
    await tabTo('Cancel…');
    await tab.press('Enter');
    await tab.sees(/2 jobs will be cancelled/, tab.dialog);
    await tabTo('Cancel 2 jobs');
    await tab.press('Enter');
    await tab.sees('2 jobs cancelled');
    clean();
});

test('g and a letter go to each page, whose heading then has the focus', async () => {
    for (const { key, path } of routes().filter((route) => route.key)) {
        await tab.press('g', key);
        await at(path);
        await tab.ready();
        await eventually('the heading has the focus', () => tab.page.evaluate(() => document.activeElement?.tagName === 'H1'));
    }
    clean();
});

test('the palette goes to pages, queues and pasted ids, and does what the page can do', async () => {
    const id = await server.enqueue('palette.queue', {});
    await tab.press('Control+k');
    await type('dead lett');
    await tab.press('Enter');
    await at('/dead');
    await tab.press('Control+k');
    await type('palette.que');
    await eventually('the queue is offered first', async () => (await tab.dialog.getByRole('option').first().innerText()).includes('palette.queue'));
    await tab.press('Enter');
    await at('/queues/palette.queue');
    await tab.press('Control+k');
    await tab.page.keyboard.insertText(id);
    await tab.press('Enter');
    await at(`/jobs/${id}`);
    await tab.ready();
    await tab.press('Control+k');
    await type('hold this');
    await tab.press('Enter');
    await server.in(id, 'held');
    // It closes with Escape, and the focus is where it was.
    await tab.press('Control+k', 'Escape');
    await eventually('no dialog is open', async () => (await tab.dialog.count()) === 0);
    clean();
});

test('a question mark lists the keys of the page', async () => {
    await tab.press('?');
    await tab.sees('Dead letters', tab.dialog);
    await tab.sees('search and commands', tab.dialog);
    await tab.press('Escape');
    await eventually('no dialog is open', async () => (await tab.dialog.count()) === 0);
    clean();
});

test('the first Tab offers to skip the navigation', async () => {
    await tab.press('Tab');
    assert.equal(await tab.page.evaluate(() => document.activeElement.textContent.trim()), 'Skip to the page');
    await tab.press('Enter');
    await eventually('the heading has the focus', () => tab.page.evaluate(() => document.activeElement?.tagName === 'H1'));
    clean();
});

test('a dialog keeps the focus and gives it back', async () => {
    await server.enqueue('asked', {});
    await tab.go('/queues/asked');
    await eventually('the queue has a job', () => tab.button('Clear…').isEnabled());
    await tabTo('Clear…');
    await tab.press('Enter');
    await tab.sees(/Deletes the 1 pending/, tab.dialog);
    for (let steps = 0; steps < 12; steps += 1) {
        await tab.press('Tab');
        assert.ok(await tab.page.evaluate(() => document.activeElement === document.body || document.activeElement.closest('dialog') !== null));
    }
    await tab.press('Escape');
    await eventually('the button has the focus again', () => tab.page.evaluate(() => document.activeElement.textContent === 'Clear…'));
    clean();
});

test('t changes how times are shown, and p keeps the page as it is', async () => {
    await server.enqueue('times', {});
    await tab.go('/queues/times');
    const shown = () => tab.page.locator('tbody time').first().innerText();
    assert.match(await shown(), /ago/);
    await tab.press('t', 't');
    await eventually('times are in UTC', async () => /UTC/.test(await shown()));
    await tab.press('t');
    await tab.press('p');
    await tab.sees(/^paused$/);
    await tab.press('p');
    await tab.sees(/^live$/);
    clean();
});
