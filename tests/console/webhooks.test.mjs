// Webhooks in both directions, and the rules for enqueueing without a key.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, beforeEach, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { Server } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';

const server = await Server.start('--webhooks-private');
const ana = await Person.at(server);
const tab = await ana.open('/');
after(() => server.stop());
beforeEach(() => (tab.wrong.length = 0));
const clean = () => assert.deepEqual(tab.wrong, []);
const hooks = () => server.get('/webhook-endpoints');

/** A receiver that answers as it is told and remembers what came. */
const came = [];
let status = 200;
const receiver = http.createServer((request, response) => {
    let text = '';
    request.on('data', (part) => (text += part));
    request.on('end', () => {
        came.push({ body: JSON.parse(text), headers: request.headers });
        response.writeHead(status).end('so it came');
    });
});
await new Promise((done) => receiver.listen(0, '127.0.0.1', done));
after(() => receiver.close());
const address = `http://127.0.0.1:${receiver.address().port}/hooks`;

test('a webhook is made, turned off, and removed', async () => {
    await tab.go('/webhooks');
    await tab.button('Add a webhook…').click();
    await tab.field(/^(URL|Address)/, tab.dialog).first().fill('https://hooks.example.com/windlass');
    await tab.dialog.locator('button.main').click();
    await tab.sees('It is not shown again', tab.dialog);
    await tab.button('I have stored it', tab.dialog).click();
    await tab.sees('hooks.example.com', tab.main);
    const [hook] = await server.get('/webhook-endpoints');
    await tab.go(`/webhooks?hook=${hook.id}`);
    await tab.button(/^Turn off/, tab.main).click();
    if (await tab.dialog.count()) await tab.button('Turn off', tab.dialog).click();
    await tab.button(/^Turn on/, tab.main).waitFor();
    await tab.button('Remove…', tab.main).click();
    await tab.button('Remove', tab.dialog).click();
    await tab.misses('hooks.example.com', tab.main);
    clean();
});

test('a webhook is tested, edited, what failed is sent again, and its secret is replaced', async () => {
    await server.post('/webhook-endpoints', { url: address, events: ['dead'], retry_limit: 0 });
    const [hook] = await hooks();
    await tab.go(`/webhooks?hook=${hook.id}`);
    await tab.button('Send a test').click();
    await tab.sees(/^Delivered: 200 after/);
    await tab.sees('so it came');
    assert.equal(came.length, 1);
    status = 500;
    await server.dead('failing', 'no');
    await tab.sees(/^500$/, tab.main.locator('tbody'));
    status = 200;
    const [failed] = (await server.get(`/webhook-endpoints/${hook.id}/deliveries`)).filter((one) => one.error);
    await tab.button('Send again', tab.main.locator('tr', { hasText: '500' })).first().click();
    await tab.sees(/^Delivered: 200 after/);
    const again = await eventually('it came again', () => (came.length >= 3 ? came.at(-1) : null));
    assert.equal(again.body.type, failed.type);
    await tab.button('Edit…', tab.main).click();
    await tab.button('completed', tab.dialog).click();
    await tab.field('Retries of a failed delivery', tab.dialog).fill('7');
    await tab.button('Save', tab.dialog).click();
    await eventually('it is changed', async () => (await hooks())[0].retry_limit === 7);
    assert.deepEqual((await hooks())[0].events.toSorted(), ['completed', 'dead']);
    await tab.button('New secret…', tab.main).click();
    await tab.choice('The old secret signs beside it', tab.dialog).selectOption('1h');
    await tab.button('Rotate', tab.dialog).click();
    await tab.sees('It is not shown again', tab.dialog);
    const secret = (await tab.dialog.locator('code').first().innerText()).trim();
    await tab.button('I have stored it', tab.dialog).click();
    assert.ok(!(await tab.page.content()).includes(secret));
    await tab.sees('Old secret until');
    clean();
});

test('a queue verifies the webhooks of a service, and stops to', async () => {
    await tab.go('/webhooks?tab=incoming');
    await tab.button('Verify a service…').click();
    await tab.field('Queue', tab.dialog).fill('github.pushes');
    await tab.field("The sender's secret", tab.dialog).fill('a secret of sixteen');
    await tab.button('Verify', tab.dialog).click();
    await tab.sees('github.pushes', tab.main.locator('tbody'));
    assert.deepEqual((await server.get('/inbound-webhooks')).map((one) => [one.queue, one.scheme]), [['github.pushes', 'github']]);
    assert.equal((await fetch(`${server.url}/api/v1/webhooks/github.pushes`, { method: 'POST', body: '{}' })).status, 401);
    await tab.button('Change…', tab.main).click();
    await tab.choice('How the sender signs', tab.dialog).selectOption('stripe');
    await tab.field("The sender's secret", tab.dialog).fill('another secret of sixteen');
    await tab.button('Save', tab.dialog).click();
    await eventually('it is changed', async () => (await server.get('/inbound-webhooks'))[0].scheme === 'stripe');
    await tab.button('Remove…', tab.main).click();
    await tab.button('Remove', tab.dialog).click();
    await tab.sees('No queue verifies signatures');
    clean();
});

test('rules for enqueueing are added, moved, edited and removed, and their order counts', async () => {
    const rules = async () => (await server.get('/enqueue-rules')).map((rule) => [rule.queues.join(), typeof rule.who === 'string' ? rule.who : Object.keys(rule.who)[0]]);
    await tab.go('/webhooks?tab=rules');
    for (const [queues, rate] of [['contact', '10/1m'], ['forms.*', '5/1m']]) {
        await tab.button('Add a rule…').click();
        await tab.field('Queues', tab.dialog).fill(queues);
        await tab.sees('Anybody needs a rate', tab.dialog);
        await tab.field('Each at most', tab.dialog).fill(rate);
        await tab.button('Add', tab.dialog).click();
        await tab.sees(queues, tab.main.locator('tbody'));
    }
    await tab.button('↑', tab.page.locator('tr', { hasText: 'forms.*' })).click();
    await eventually('they have changed places', async () => (await rules())[0][0] === 'forms.*');
    await tab.sees('forms.*', tab.main.locator('tbody tr').first());
    await tab.button('Edit…', tab.page.locator('tr', { hasText: 'contact' })).click();
    await tab.dialog.getByText('Keys of some roles').click();
    await tab.field('Roles', tab.dialog).fill('worker');
    await tab.button('Save', tab.dialog).click();
    await eventually('it is changed', async () => (await rules())[1][1] === 'roles');
    await tab.button('Remove…', tab.page.locator('tr', { hasText: 'forms.*' })).click();
    await tab.button('Remove', tab.dialog).click();
    await eventually('one is left', async () => (await rules()).join() === 'contact,roles');
    clean();
});
