// What a person does with jobs, from the page to the server and back.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, beforeEach, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { command, Server } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';

const server = await Server.start();
const ana = await Person.at(server);
const tab = await ana.open('/');
after(() => server.stop());
beforeEach(() => (tab.wrong.length = 0));
/** Later than any test runs. */
const LATER = new Date(Date.now() + 86_400_000).toISOString();
const clean = () => assert.deepEqual(tab.wrong, []);

test('a job that is enqueued shows by itself, is watched while it runs, and is stopped', async () => {
    await server.enqueue('reports', { month: 1 }, { scheduled_at: LATER });
    await tab.go('/queues/reports');
    const id = await server.enqueue('reports', { month: 'june' });
    await tab.page.locator('tr', { hasText: 'june' }).click();
    await eventually('the page of the job is open', () => tab.path === `/jobs/${id}`);
    const taken = await server.fetch('reports');
    await tab.sees(/^active/);
    await server.heartbeat(taken, { progress: { current: 10, total: 40, message: 'Rendering page 10' } });
    await tab.sees('Rendering page 10');
    await tab.sees(/25 %/);
    await tab.button('Stop…').click();
    await tab.sees(/asked to stop with its next heartbeat/, tab.dialog);
    await tab.field('Reason, for the timeline', tab.dialog).fill('the wrong month');
    await tab.button('Stop', tab.dialog).click();
    await tab.sees(/Asked to stop .*the wrong month/);
    assert.equal((await server.heartbeat(taken, {})).jobs[id].status, 'cancel');
    await server.ack(taken);
    await tab.sees(/^cancelled$/);
    assert.equal((await server.job(id)).cancel_reason, 'the wrong month');
    clean();
});

test('a job is held, approved, held again and rejected', async () => {
    const id = await server.enqueue('payments', { cents: 5 });
    await tab.go(`/jobs/${id}`);
    await tab.button('Hold').click();
    await tab.sees(/Held until somebody decides/);
    await tab.button('Approve').click();
    await server.in(id, 'pending');
    await tab.sees(/^pending$/);
    await server.post(`/jobs/${id}/hold`, { reason: 'look twice' });
    await tab.sees(/look twice/);
    await tab.button('Reject').click();
    await server.in(id, 'dead');
    await tab.sees(/^dead after/);
    clean();
});

test('a held job is approved in the list', async () => {
    const id = await server.enqueue('payments', { cents: 6 });
    await server.post(`/jobs/${id}/hold`, { reason: 'above the limit' });
    await tab.go('/held');
    await tab.button('Approve', tab.page.locator('tr', { hasText: 'above the limit' })).click();
    await server.in(id, 'pending');
    await tab.misses('above the limit');
    clean();
});

test('a dead job is retried, and deleted after a question', async () => {
    const id = await server.dead('mail', 'no route to host', { to: 'a' }, { backtrace: 'smtp::connect\n  at smtp.rs:12' });
    await tab.go(`/jobs/${id}`);
    await tab.sees(/no route to host/);
    await tab.sees(/at smtp.rs:12/);
    await tab.button('Retry').click();
    await server.in(id, 'pending');
    await server.fail(await server.fetch('mail'), 'no route to host');
    await tab.sees(/^dead after/);
    await tab.button('Delete…').click();
    await tab.sees('This cannot be undone.', tab.dialog);
    await tab.button('Back', tab.dialog).click();
    assert.equal((await server.job(id)).state, 'dead');
    await tab.button('Delete…').click();
    await tab.button('Delete', tab.dialog).click();
    await eventually('it is deleted', async () => (await server.send('GET', `/jobs/${id}`)).status === 404);
    await eventually('the page of its queue is shown', () => tab.path === '/queues/mail');
    clean();
});

test('a job runs again with a payload that was edited, and large numbers stay exact', async () => {
    const response = await server.send('POST', '/enqueue', { raw: '{"queue": "ledger", "max_retries": 1, "payload": {"account": 9007199254740993, "cents": 1.10}}' });
    const id = (await response.json()).job_id;
    await server.fail(await server.fetch('ledger'), 'account 9007199254740993 is locked');
    await tab.go(`/jobs/${id}?tab=payload`);
    await tab.sees('9007199254740993', tab.main.locator('.json'));
    await tab.button('Run again with…').click();
    const text = tab.field('Payload', tab.dialog);
    await eventually('the payload can be edited', async () => (await text.inputValue()).includes('9007199254740993'));
    await text.fill('{"account": 9007199254740995, "cents": 1.10');
    await tab.sees('This is not JSON yet.', tab.dialog);
    assert.ok(await tab.button('Run again with another payload', tab.dialog).isDisabled());
    await text.fill('{"account": 9007199254740995, "cents": 1.10}');
    await tab.button('Run again', tab.dialog).click();
    await server.in(id, 'pending');
    const stored = await (await server.send('GET', `/jobs/${id}/payload`)).text();
    assert.match(stored, /9007199254740995/);
    clean();
});

test('a waiting job is moved to another queue, and cancelled', async () => {
    const id = await server.enqueue('here', {}, { scheduled_at: LATER });
    await tab.go(`/jobs/${id}`);
    await tab.button('Move…').click();
    await tab.field('To the queue', tab.dialog).fill('there');
    await tab.button('Move', tab.dialog).click();
    await eventually('it is moved', async () => (await server.job(id)).queue === 'there');
    await tab.button('Cancel…').click();
    await tab.button('Cancel the job', tab.dialog).click();
    await server.in(id, 'cancelled');
    clean();
});

test('an action on many says first how many it is, and which are passed over', async () => {
    for (const at of [1, 2, 3]) await server.dead('bulk', `timeout after ${at} s`, { batch: 'these' });
    await server.enqueue('bulk', { batch: 'these' });
    await tab.go('/jobs?q=these');
    await tab.sees(/^4 jobs$/);
    await tab.button('Retry…').click();
    await tab.sees(/3 jobs will be retried; 1 of the 4 will be passed over/, tab.dialog);
    await tab.button('Retry 3 jobs', tab.dialog).click();
    await tab.sees('3 jobs retried');
    const found = await server.post('/jobs/search', { queue: 'bulk' });
    assert.deepEqual(new Set(found.jobs.map((job) => job.state)), new Set(['pending']));
    clean();
});

test('those that are chosen, and no others, are cancelled', async () => {
    for (const at of [1, 2, 3]) await server.enqueue('chosen', { at });
    await tab.go('/queues/chosen');
    for (const at of [1, 3]) await tab.page.locator('tr', { hasText: `"at":${at}` }).getByRole('checkbox').check();
    await tab.sees('2 chosen');
    await tab.button('Cancel…', tab.main.locator('.bulk')).click();
    await tab.field(/^Reason/, tab.dialog).fill('not these');
    await tab.button('Cancel 2 jobs', tab.dialog).click();
    await tab.sees('2 jobs cancelled');
    const found = await server.post('/jobs/search', { queue: 'chosen' });
    assert.deepEqual(found.jobs.map((job) => [job.payload.at, job.state]).sort(), [[1, 'cancelled'], [2, 'pending'], [3, 'cancelled']]);
    clean();
});

test('a group of dead letters is retried with one press and a confirmation', async () => {
    for (const at of [1, 2, 3, 4]) await server.dead('night', `upstream answered 50${at} after ${at} ms`);
    await tab.go('/dead?queue=night');
    const group = tab.main.locator('.group', { hasText: 'upstream answered' });
    await eventually('they are one group', async () => (await group.count()) === 1 && (await group.locator('.group-count').innerText()).startsWith('4'));
    await tab.button('Retry…', group).click();
    await tab.button('Retry 4 jobs', tab.dialog).click();
    await tab.sees('4 jobs retried');
    await tab.sees('No job is dead');
    clean();
});

test('the command that a dialog shows does the same', async () => {
    for (const at of [1, 2]) await server.dead('by.command', `broke ${at}`, { note: "it's" });
    await tab.go(`/jobs?q=${encodeURIComponent("queue:by.command it's")}&state=dead`);
    await tab.button('Retry…').click();
    await tab.sees(/2 jobs will be retried/, tab.dialog);
    await tab.dialog.getByText('The same from a terminal').click();
    const [line, curl] = await tab.dialog.locator('.command code').allInnerTexts();
    assert.match(curl, /^curl -X POST/);
    const shell = (text) => execFileSync('sh', ['-c', text], { env: command(server), encoding: 'utf8' });
    shell(line);
    const states = async () => (await server.post('/jobs/search', { queue: 'by.command' })).jobs.map((job) => job.state);
    assert.deepEqual(await states(), ['pending', 'pending']);
    for (const at of [1, 2]) await server.post('/jobs/bulk', { filter: { queue: 'by.command' }, action: 'cancel', reason: `${at}` });
    await tab.button('Back', tab.dialog).click();
    await tab.go('/jobs?q=queue:by.command&state=cancelled');
    await tab.button('Retry…').click();
    await tab.sees(/2 jobs will be retried/, tab.dialog);
    await tab.dialog.getByText('The same from a terminal').click();
    shell((await tab.dialog.locator('.command code').allInnerTexts())[1].replace(/^curl /, 'curl -sf '));
    assert.deepEqual(await states(), ['pending', 'pending']);
    await tab.button('Back', tab.dialog).click();
    clean();
});
