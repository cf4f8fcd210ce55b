// What a person does with queues, schedules and the server, from the page to the server and back.
import assert from 'node:assert/strict';
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
const queue = async (name) => (await server.get('/queues')).find((one) => one.name === name);

test('a queue is paused and resumed', async () => {
    await server.enqueue('mail', {});
    await tab.go('/queues/mail');
    await tab.button('Pause', tab.main).click();
    await eventually('it is paused', async () => (await queue('mail')).paused);
    await tab.sees(/^paused$/, tab.main);
    await tab.button('Resume', tab.main).click();
    await eventually('it is resumed', async () => !(await queue('mail')).paused);
    await tab.button('Pause', tab.main).waitFor();
    clean();
});

test('the limits of a queue are set, shown, and removed', async () => {
    await server.enqueue('limited', {});
    await tab.go('/queues/limited');
    await tab.button('Limits…').click();
    await tab.field(/^Jobs at once/, tab.dialog).fill('4');
    await tab.field(/^Starts/, tab.dialog).fill('100');
    await tab.sees(/At most 4 jobs of limited run at once, and at most 100 start in 1m/, tab.dialog);
    await tab.button('Set limits', tab.dialog).click();
    await tab.sees('at most 100 per 1 m');
    const { max_concurrency, rate_limit } = await queue('limited');
    assert.deepEqual({ max_concurrency, rate_limit }, { max_concurrency: 4, rate_limit: 100 });
    await tab.button('Limits…').click();
    await tab.field(/^Jobs at once/, tab.dialog).fill('');
    await tab.field(/^Starts/, tab.dialog).fill('');
    await tab.button('Set limits', tab.dialog).click();
    await tab.misses('at most 100 per 1 m');
    assert.equal((await queue('limited')).max_concurrency, null);
    clean();
});

test('a queue is drained, cleared and deleted, each after a question that says how many jobs', async () => {
    for (const at of [1, 2, 3]) await server.enqueue('old', { at });
    await tab.go('/queues/old');
    await tab.button('Drain…').click();
    await tab.button('Drain', tab.dialog).click();
    await tab.sees(/^draining$|^paused$/, tab.main);
    await tab.button('Clear…').click();
    await tab.sees(/Deletes the 3 pending and scheduled jobs of old/, tab.dialog);
    await tab.button('Clear', tab.dialog).click();
    await eventually('it is empty', async () => (await queue('old')).pending === 0);
    await tab.button('Delete…').click();
    await tab.sees(/Deletes the queue old with all its/, tab.dialog);
    await tab.button('Delete', tab.dialog).click();
    await eventually('it is gone', async () => !(await queue('old')));
    await eventually('the list of queues is shown', () => tab.path === '/queues');
    clean();
});

test('queues are found by name, by what is wrong with them, and sorted, and the address keeps it', async () => {
    await server.enqueue('busy.one', {});
    await server.dead('failing.one', 'no');
    await tab.go('/queues');
    await tab.field('Filter by name').fill('one');
    await tab.misses('limited', tab.main);
    await tab.button('failing', tab.main).click();
    await tab.misses('busy.one', tab.main);
    await tab.sees('failing.one', tab.main);
    assert.equal(tab.path, '/queues?q=one&only=failing');
    await tab.button('Waiting', tab.main).click();
    assert.match(tab.path, /sort=pending&order=desc/);
    await tab.page.reload();
    await tab.ready();
    await tab.sees('failing.one', tab.main);
    await tab.misses('busy.one', tab.main);
    clean();
});

test('a schedule is made with its next times before it is saved, run, paused, changed and deleted', async () => {
    await tab.go('/schedules');
    await tab.button('New schedule').click();
    await tab.field('Name', tab.dialog).fill('nightly');
    await tab.field('Queue', tab.dialog).fill('reports');
    await tab.choice('How often', tab.dialog).selectOption({ label: 'Every day' });
    await tab.field('Time of day', tab.dialog).fill('04:30');
    await tab.field('Time zone', tab.dialog).fill('Europe/Berlin');
    await eventually('five times are shown', async () => (await tab.dialog.locator('.times li').count()) === 5 && (await tab.dialog.locator('.times li').first().innerText()).includes('04:30'));
    await tab.field('Payload of each job (JSON)', tab.dialog).fill('{"big": 9007199254740993}');
    await tab.dialog.getByText('Its jobs: priority, attempts, unique key, tags').click();
    await tab.choice('Priority', tab.dialog).selectOption('high');
    await tab.field('Attempts, including the first', tab.dialog).fill('5');
    await tab.choice('Delay between attempts', tab.dialog).selectOption('linear');
    await tab.field('Tags', tab.dialog).fill('tenant=acme');
    await tab.button('Create', tab.dialog).click();
    await eventually('its page is shown', () => tab.path === '/schedules?name=nightly');
    const found = await server.get('/schedules/nightly');
    assert.deepEqual([found.cron, found.timezone, found.queue], ['30 4 * * *', 'Europe/Berlin', 'reports']);
    assert.deepEqual([found.priority, found.max_attempts, found.retry_backoff, found.tags], ['high', 5, 'linear', { tenant: 'acme' }]);
    await tab.sees('9007199254740993', tab.main);
    await tab.button('Run now').click();
    await tab.sees('A job was enqueued');
    await tab.page.getByRole('link', { name: 'Show it' }).click();
    await eventually('the job is shown', () => /^\/jobs\/job_/.test(tab.path));
    const job = tab.path.slice('/jobs/'.length);
    await tab.go('/schedules?name=nightly');
    const last = tab.main.locator(`tr:has(a[title="${job}"])`);
    await tab.sees('pending', last);
    await tab.button('Pause', tab.main).click();
    await tab.sees(/^paused$/, tab.main);
    await tab.button('Edit').click();
    await tab.choice('How often', tab.dialog).selectOption({ label: 'Every hour' });
    await tab.button('Save', tab.dialog).click();
    await eventually('it is changed', async () => (await server.get('/schedules/nightly')).cron === '0 * * * *');
    await tab.button('Delete…').click();
    await tab.button('Delete', tab.dialog).click();
    await tab.sees('There are no schedules yet');
    clean();
});

test('the whole server is paused, which every page says, and resumed', async () => {
    await tab.go('/settings');
    await tab.button('Pause the server…').click();
    await tab.sees(/Nothing starts until it is resumed/, tab.dialog);
    await tab.button('Pause the server', tab.dialog).click();
    await tab.sees(/The whole server is paused since/);
    await tab.button('Resume the server…').click();
    await tab.button('Resume the server', tab.dialog).click();
    await tab.misses(/The whole server is paused since/);
    clean();
});

test('a worker is drained', async () => {
    await server.enqueue('held.by', {});
    await server.fetch('held.by', 'worker-7');
    await tab.go('/workers?name=worker-7');
    await tab.button('Drain…', tab.main).click();
    await tab.sees(/gets no further jobs, and finishes the 1 that it holds/, tab.dialog);
    await tab.button('Drain', tab.dialog).click();
    await tab.sees(/^draining$/, tab.main);
    clean();
});

test('what a queue has completed lately is a line beside it', async () => {
    await server.enqueue('lined', {});
    await server.ack(await server.fetch('lined'));
    await tab.page.setViewportSize({ width: 1440, height: 900 });
    await tab.go('/queues?q=lined');
    await tab.sees('1 completed', tab.main.locator('tbody'));
    assert.equal(await tab.main.locator('tbody svg.spark').count(), 1);
    clean();
});

test('a queue with rounds is swept: what died is rebuilt, and the question says how many', async () => {
    await server.post('/queues/walk.src/settings', { rounds: true });
    const id = await server.dead('walk.src', 'no such folder');
    for (const path of ['/rounds?queue=walk.src', '/queues/walk.src?tab=rounds']) {
        await tab.go(path);
        await tab.button('Sweep…', tab.main).click();
        await tab.sees(/Dead jobs: 1/, tab.dialog);
        await tab.button('Sweep', tab.dialog).last().click();
        await server.in(id, 'pending');
        await server.fail(await server.fetch('walk.src'), 'no such folder');
        await server.in(id, 'dead');
    }
    clean();
});
