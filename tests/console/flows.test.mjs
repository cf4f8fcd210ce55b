// Flows and what jobs use, from the page to the server and back.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, beforeEach, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { ROOT, Server } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';

const server = await Server.start();
const ana = await Person.at(server);
const tab = await ana.open('/');
after(() => server.stop());
beforeEach(() => (tab.wrong.length = 0));
const clean = () => assert.deepEqual(tab.wrong, []);
const nodes = () => tab.main.locator('.graph-node');

test('batches, chains and trees are listed, filtered by kind, and opened', async () => {
    const steps = ['pages.fetch', 'pages.render', 'pages.publish'].map((queue) => ({ queue }));
    await server.enqueue('pages.fetch', {}, { chain: { steps } });
    const parent = await server.enqueue('orders.import', {});
    for (const line of [1, 2]) await server.enqueue('orders.line', { line }, { parent_id: parent });
    await server.post('/enqueue/batch', { jobs: [{ queue: 'mails' }, { queue: 'mails' }], batch: { callback_queue: 'mails.done' } });
    await server.ack(await server.fetch('mails'));
    await tab.go('/flows');
    for (const name of ['pages.fetch → pages.render → pages.publish', 'orders.import', 'mails.done']) await tab.sees(name, tab.main);
    await tab.main.getByRole('meter', { name: 'done of mails.done' }).waitFor();
    await tab.main.getByRole('link', { name: 'Chains' }).click();
    await tab.misses('mails.done');
    await tab.main.getByRole('link', { name: /pages.fetch → pages.render/ }).click();
    await tab.sees(/^Chain/, tab.main);
    assert.equal(await nodes().count(), 1, 'the steps that have not begun are no jobs yet');
    clean();
});

test('a flow is drawn as a graph from left to right, shown over time, and its dead jobs are retried', async () => {
    const jobs = [{ name: 'first', queue: 'etl.extract', max_attempts: 1 }, ...[1, 2].map((n) => ({ name: `t${n}`, queue: 'etl.transform', max_attempts: 1, depends_on: ['first'] })), { queue: 'etl.load', depends_on: ['t1', 't2'] }];
    const { job_ids: ids } = await server.post('/enqueue/batch', { jobs });
    await server.ack(await server.fetch('etl.extract'));
    await server.fail(await server.fetch('etl.transform'), 'no rows');
    await tab.go(`/flows/${ids[3]}`);
    await eventually('all nodes are drawn', async () => (await nodes().count()) === 4);
    const left = async (queue) => (await nodes().filter({ hasText: queue }).first().boundingBox()).x;
    assert.ok((await left('etl.extract')) < (await left('etl.transform')) && (await left('etl.transform')) < (await left('etl.load')), 'what follows is on the right');
    assert.equal(await tab.main.locator('.graph-edges path').count(), 4);
    await tab.main.getByRole('link', { name: 'Over time' }).click();
    const rows = tab.main.getByRole('list', { name: 'Jobs over time' }).getByRole('listitem');
    await eventually('each job has a row', async () => (await rows.count()) === 4);
    assert.equal(await rows.locator('.ran').count(), 2, 'two of them have run');
    await tab.button(/^Retry 1 dead/).click();
    await tab.button(/^Retry/, tab.dialog).click();
    await server.in(ids[1], 'pending').catch(() => server.in(ids[2], 'pending'));
    clean();
});

test('what jobs used is added up for a period and by a tag, which the address holds', async () => {
    for (const [customer, cost] of [['ann', 0.5], ['bob', 2]]) {
        await server.enqueue('chat', {}, { tags: { customer } });
        const job = await server.fetch('chat');
        await server.post(`/ack/${job.job_id}`, { lease_token: job.lease_token, usage: { input_tokens: 100, output_tokens: 10, model: 'm', cost_usd: cost } });
    }
    await tab.go('/usage');
    await tab.sees('$2.50', tab.main);
    await tab.button('Last hour').click();
    await tab.main.getByRole('link', { name: 'Tag' }).click();
    await tab.field('Key of the tag').fill('customer');
    await tab.button('Show', tab.main).click();
    const table = tab.main.getByRole('table', { name: 'Usage by tag' });
    await table.getByText('bob').waitFor();
    assert.match(tab.page.url(), /by=tag%3Acustomer|by=tag:customer/);
    assert.match(tab.page.url(), /period=1h/);
    const names = await table.locator('tbody tr td:first-child').allInnerTexts();
    assert.deepEqual(names.slice(0, 2), ['bob', 'ann'], 'the dearest first');
    clean();
});

test('a job is enqueued with the form that the manifest of its plugin describes', async () => {
    await server.upload('digest', 'demo.digest');
    const manifest = readFileSync(join(ROOT, 'plugins/digest/windlass.toml'));
    await server.call('PUT', '/plugins/digest/manifest', { raw: manifest, type: 'application/toml' });
    await tab.go('/enqueue?queue=demo.digest');
    await tab.field(/^generate_mb/).waitFor();
    assert.equal(await tab.field(/^generate_mb/).inputValue(), '16', 'as the schema suggests');
    await tab.field(/^generate_mb/).fill('1');
    await tab.field(/^pause_ms/).fill('');
    await tab.field(/^seed/).fill('12345678901234567890');
    await tab.button('Enqueue', tab.main).click();
    const [job] = await eventually('it is enqueued', async () => {
        const { jobs } = await server.post('/jobs/search', { queue: 'demo.digest' });
        return jobs.length > 0 && jobs;
    });
    const payload = await (await server.send('GET', `/jobs/${job.id}/payload`)).text();
    assert.equal(payload.replaceAll(/\s/g, ''), '{"generate_mb":1,"seed":12345678901234567890}', 'with every digit');
    clean();
});
