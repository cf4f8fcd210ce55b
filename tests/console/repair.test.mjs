// What failed is repaired from its page: what was denied is granted, an attempt is stopped, and a queue's settings are changed.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { plugin, Server } from './lib/server.mjs';
import { readFileSync } from 'node:fs';
import { eventually } from './lib/wait.mjs';

const server = await Server.start();
const ana = await Person.at(server);
const tab = await ana.open('/');
after(() => server.stop());
beforeEach(() => (tab.wrong.length = 0));
const clean = () => assert.deepEqual(tab.wrong, []);
const upload = (name, queue) => server.send('PUT', `/plugins/${name}?queues=${queue}`, { raw: readFileSync(plugin(name)), type: 'application/wasm' });
const settings = async (name) => (await server.get(`/queues/${name}`)).settings;

test('a host that a job was denied is granted, asked for by the manifest, and the job runs again, in one dialog', async () => {
    await upload('fetch', 'files');
    await server.send('PUT', '/plugins/fetch/manifest', { body: { queues: ['files'], capabilities: { http: ['one.example.com'] } } });
    const id = await server.enqueue('files', { urls: ['http://localhost:9/x'] }, { max_attempts: 1 });
    await server.in(id, 'dead');
    await tab.go(`/jobs/${id}`);
    await tab.button('Grant and run again…').click();
    await tab.sees(/does not ask for it: that is changed, too/, tab.dialog);
    await tab.button('Grant and run again', tab.dialog).click();
    await eventually('it has failed again, of something else', async () => /refused|connect/.test((await server.job(id)).last_error ?? ''));
    const { grant, versions } = await server.get('/plugins/fetch');
    assert.ok(grant.private_http.includes('localhost:9'));
    assert.ok(versions[0].manifest.capabilities.http.includes('localhost:9'));
    clean();
});

test('the settings of a queue are changed and taken back in a form', async () => {
    await server.enqueue('formed', {});
    await tab.go('/queues/formed?tab=settings');
    await tab.field('Jobs at once', tab.main).fill('8');
    await tab.field('Attempts', tab.main).fill('5');
    await tab.field('First delay', tab.main).fill('9s');
    await tab.button('Save the settings…').click();
    await tab.button('Save the settings', tab.dialog).click();
    await eventually('they are stored', async () => (await settings('formed')).max_concurrency === 8);
    assert.equal((await settings('formed')).defaults.max_attempts, 5);
    await tab.go('/queues/formed?tab=settings');
    await tab.field('Attempts', tab.main).fill('');
    await tab.button('Save the settings…').click();
    await tab.button('Save the settings', tab.dialog).click();
    await eventually('one default is gone', async () => !('max_attempts' in (await settings('formed')).defaults));
    assert.equal((await settings('formed')).defaults.retry_base_delay, '9s', 'the other one stays');
    clean();
});

test('settings that cannot be meant are not sent', async () => {
    await server.enqueue('strict', {});
    await tab.go('/queues/strict?tab=settings');
    await tab.field('Starts', tab.main).fill('often');
    await tab.sees('Write starts as 100/1m, or nothing.');
    assert.equal(await tab.button('Save the settings…').count(), 0);
    clean();
});
