// Keys, secrets, namespaces, the audit log, and enqueueing by hand.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, beforeEach, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { Server } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';

const server = await Server.start();
const ana = await Person.at(server);
const tab = await ana.open('/');
after(() => server.stop());
beforeEach(() => (tab.wrong.length = 0));
const clean = () => assert.deepEqual(tab.wrong, []);

test('a job is enqueued by hand, with options, and again from an earlier one', async () => {
    await tab.go('/enqueue');
    await tab.field(/^Queue/, tab.main).first().fill('by.hand');
    await tab.field('Payload', tab.main).fill('{"order": 9007199254740993');
    assert.ok(await tab.button('Enqueue', tab.main).isDisabled());
    await tab.field('Payload', tab.main).fill('{"order": 9007199254740993}');
    await tab.field('Tags', tab.main).fill('tenant=acme');
    await tab.button('Enqueue', tab.main).click();
    await tab.sees('Enqueued from here');
    const [job] = (await server.post('/jobs/search', { queue: 'by.hand' })).jobs;
    assert.deepEqual(job.tags, { tenant: 'acme' });
    assert.match(await (await server.send('GET', `/jobs/${job.id}/payload`)).text(), /9007199254740993/);
    await tab.go('/enqueue?queue=by.hand');
    await tab.main.getByTitle('Take over its payload and options').first().click();
    await eventually('its payload is taken over', async () => (await tab.field('Payload', tab.main).inputValue()).includes('9007199254740993'));
    clean();
});

test('a key is made, shown once, and revoked', async () => {
    await tab.go('/keys');
    await tab.button('Make a key…').click();
    await tab.field('Who uses it', tab.dialog).fill('the billing service');
    await tab.choice('What it may do', tab.dialog).selectOption('viewer');
    await tab.button('Make the key', tab.dialog).click();
    await tab.sees('It is not shown again', tab.dialog);
    const key = (await tab.dialog.locator('code').first().innerText()).trim();
    await server.get('/queues', { key });
    await tab.button('I have stored it', tab.dialog).click();
    assert.ok(!(await tab.page.content()).includes(key));
    await tab.button('Revoke…', tab.page.locator('tr', { hasText: 'the billing service' })).click();
    await tab.button('Revoke', tab.dialog).click();
    await eventually('it is refused', async () => (await server.send('GET', '/queues', { key })).status === 401);
    clean();
});

test('a secret is set, never shown, and removed', async () => {
    await tab.go('/secrets');
    await tab.button('Set a secret…').click();
    await tab.field('Name', tab.dialog).fill('api.token');
    await tab.field('Value', tab.dialog).fill('a value that nobody sees');
    await tab.button('Set', tab.dialog).click();
    await tab.sees('api.token', tab.main);
    assert.ok(!(await tab.page.content()).includes('nobody sees'));
    await tab.button('Remove…', tab.page.locator('tr', { hasText: 'api.token' })).click();
    await tab.button('Remove', tab.dialog).click();
    await tab.sees('No secret is stored');
    clean();
});

test('a namespace is made with quotas, and removed only by typing its name', async () => {
    await tab.go('/namespaces');
    await tab.button('Make a namespace…').click();
    await tab.field('Name', tab.dialog).fill('globex');
    await tab.field(/^Open jobs/, tab.dialog).fill('100');
    await tab.button('Make it', tab.dialog).click();
    await tab.sees('0 of 100', tab.main);
    await tab.button('Quotas…', tab.page.locator('tr', { hasText: 'globex' })).click();
    await tab.field(/^Requests/, tab.dialog).fill('often');
    await tab.sees(/write a rate such as 500\/1s/, tab.dialog);
    await tab.field(/^Requests/, tab.dialog).fill('500/1s');
    await tab.field(/^Open jobs/, tab.dialog).fill('7');
    await tab.button('Set the quotas', tab.dialog).click();
    await tab.sees('0 of 7', tab.main);
    const { quotas } = (await server.get('/namespaces')).namespaces.find((one) => one.name === 'globex');
    assert.deepEqual([quotas.open_jobs, quotas.requests.count], [7, 500]);
    await tab.button('Remove…', tab.page.locator('tr', { hasText: 'globex' })).click();
    assert.ok(await tab.button('Remove', tab.dialog).isDisabled());
    await tab.field('Type globex to confirm', tab.dialog).fill('globex');
    await tab.button('Remove', tab.dialog).click();
    await tab.misses('globex', tab.main.locator('tbody'));
    clean();
});

test('what was done is in the audit log, which is whole, and is found by who did it', async () => {
    await tab.go('/audit');
    await tab.sees('namespace.', tab.main);
    await tab.button('Verify the chain').click();
    await tab.sees(/whole: \d+ entries/);
    const file = tab.page.waitForEvent('download');
    await tab.button('Export').click();
    const lines = readFileSync(await (await file).path(), 'utf8').trim().split('\n');
    const entries = lines.map((line) => JSON.parse(line));
    assert.ok(entries.length > 5 && entries.every((entry) => entry.hash && entry.action), lines[0]);
    await tab.go('/audit?action=secret');
    await tab.sees('api.token', tab.main);
    await tab.misses('globex', tab.main.locator('tbody'));
    assert.ok(!(await tab.page.content()).includes('nobody sees'));
    clean();
});
