// The actions on jobs that the other files leave out: changing one that waits, stopping one in the sandbox, and each action on many.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, beforeEach, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { command, plugin, Server } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';

const server = await Server.start('--durability', 'os');
const ana = await Person.at(server);
const tab = await ana.open('/');
after(() => server.stop());
beforeEach(() => (tab.wrong.length = 0));
const clean = () => assert.deepEqual(tab.wrong, []);
const NEXT_YEAR = new Date().getFullYear() + 1;
const LATER = new Date(Date.now() + 86_400_000).toISOString();
const shell = (line) => execFileSync('sh', ['-c', line], { env: command(server), encoding: 'utf8' });

/** The command that a dialog shows. */
async function shownCommand() {
    await tab.dialog.getByText('The same from a terminal').click();
    return tab.dialog.locator('.command code').first().innerText();
}

const found = async (queue) => (await server.post('/jobs/search', { queue, order: 'asc' })).jobs;

test('a job that waits is changed: its payload, time, tags, attempts and limits; and the command that is shown does the same', async () => {
    const [id, other] = [await server.enqueue('edited', { n: 1 }, { scheduled_at: LATER }), await server.enqueue('edited', { n: 1 }, { scheduled_at: LATER })];
    await tab.go(`/jobs/${id}`);
    await tab.button('Edit…').click();
    await tab.field('Payload', tab.dialog).fill('{"n": 9007199254740993}');
    await tab.choice('Priority', tab.dialog).selectOption('critical');
    await tab.field('Attempts in all', tab.dialog).fill('9');
    await tab.field('Tags', tab.dialog).fill('tenant=acme, kind=a b');
    await tab.field('One attempt takes at most', tab.dialog).fill('90s');
    await tab.field('Due (empty: at once)', tab.dialog).fill(`${NEXT_YEAR}-01-31T12:30`);
    const line = await shownCommand();
    await tab.button('Save', tab.dialog).click();
    const edited = async (which) => {
        const { priority, max_attempts, tags, attempt_timeout, scheduled_at, state } = await server.job(which);
        // As it is written, apart from its spaces: its number is larger than those of JavaScript.
        const payload = (await (await server.send('GET', `/jobs/${which}/payload`)).text()).replace(/\s/g, '');
        return { priority, max_attempts, tags, attempt_timeout, scheduled_at, state, payload };
    };
    await eventually('it is changed', async () => (await edited(id)).priority === 'critical');
    const now = await edited(id);
    assert.deepEqual([now.max_attempts, now.tags, now.state], [9, { tenant: 'acme', kind: 'a b' }, 'scheduled']);
    assert.match(now.payload, /9007199254740993/);
    assert.equal(now.scheduled_at, `${NEXT_YEAR}-01-31T11:30:00.000Z`, 'the time of the browser, which is that of Berlin');
    shell(line.replace(id, other));
    assert.deepEqual(await edited(other), now);
    clean();
});

test('a scheduled job runs now, and the notice has the same as a command', async () => {
    const [id, other] = [await server.enqueue('soon', {}, { scheduled_at: LATER }), await server.enqueue('soon', {}, { scheduled_at: LATER })];
    await tab.go(`/jobs/${id}`);
    await tab.button('Run now').click();
    await server.in(id, 'pending');
    const line = await tab.button('Copy as windlass').getAttribute('title');
    shell(line.replace(id, other));
    await server.in(other, 'pending');
    clean();
});

test('the list of what a page can do has each of its actions as a command', async () => {
    const id = await server.dead('listed', 'no');
    await tab.go(`/jobs/${id}`);
    await tab.press('Control+k');
    await tab.page.keyboard.type('as commands');
    await tab.press('Enter');
    await tab.sees('What this page can do', tab.dialog);
    const lines = await tab.dialog.locator('.command code').allInnerTexts();
    for (const word of ['retry', 'requeue', 'delete']) assert.ok(lines.some((line) => line === `windlass job ${word} ${id}`), `${word}: ${lines.join('\n')}`);
    assert.ok(lines.some((line) => line.startsWith('curl -X DELETE')));
    clean();
});

test('a dead job gets one more attempt, and a parent is rebuilt', async () => {
    const id = await server.dead('more', 'not yet');
    await tab.go(`/jobs/${id}`);
    await tab.button('One more attempt').click();
    await server.in(id, 'pending');
    const parent = await server.enqueue('parents', {});
    const child = await server.enqueue('children', {}, { parent_id: parent });
    await server.ack(await server.fetch('children'));
    await server.ack(await server.fetch('parents'));
    await server.in(parent, 'completed');
    await tab.go(`/jobs/${parent}`);
    await tab.button('Rebuild…').click();
    await tab.sees(/after removing all jobs below it/, tab.dialog);
    await tab.button('Rebuild', tab.dialog).click();
    await eventually('its child is gone', async () => (await server.send('GET', `/jobs/${child}`)).status === 404);
    await server.in(parent, 'pending');
    clean();
});

test('an attempt in the sandbox that does not end by itself is stopped by force, which is shown while it happens and proved afterwards', async () => {
    await server.upload('test-rust', 'spinning', plugin('test-rust'));
    const id = await server.enqueue('spinning', { mode: 'spin' }, { max_attempts: 1 });
    await tab.go(`/jobs/${id}`);
    await tab.sees('In the sandbox');
    await tab.button('Stop…').click();
    await tab.choice('Grace before it is stopped by force', tab.dialog).selectOption('5 s');
    await tab.sees(/If it has not ended after 5s, it is stopped by force/, tab.dialog);
    await tab.button('Stop', tab.dialog).click();
    await tab.sees(/Stopped by force in .* if it does not end by itself/);
    assert.equal(await tab.page.locator('.stopping .ring.left').count(), 1);
    await server.in(id, 'cancelled');
    await tab.sees(/Its attempt ended .* after it was asked, by force, after it had run for .*nothing of it runs/);
    assert.deepEqual((await server.get('/attempts')).attempts, []);
    clean();
});

/** Opens the dialog of an action on all jobs of a queue. */
async function many(queue, button) {
    await tab.go(`/${button === 'Run now…' ? 'scheduled' : 'jobs'}?q=queue:${queue}`);
    await tab.button(button, tab.main).first().click();
}

test('many jobs are held, given another priority, moved, made to run now and deleted, and each command does the same', async () => {
    const make = async (queue, more) => {
        for (const n of [1, 2]) await server.enqueue(queue, { n }, more);
    };
    const twice = async (queue, act, holds) => {
        const line = await act();
        await eventually(`the jobs of ${queue} are changed`, async () => holds(await found(queue)));
        return line;
    };
    // Each case: its button, what is entered, and what the jobs are afterwards.
    const cases = [
        ['Hold…', 'bulk.hold', {}, () => tab.field(/^Reason/, tab.dialog).fill("it's odd"), 'Hold 2 jobs', (jobs) => jobs.every((job) => job.state === 'held')],
        ['Priority…', 'bulk.priority', { scheduled_at: LATER }, () => tab.choice('Priority', tab.dialog).selectOption('critical'), 'Priority 2 jobs', (jobs) => jobs.every((job) => job.priority === 'critical')],
        ['Run now…', 'bulk.now', { scheduled_at: LATER }, () => {}, 'Run now 2 jobs', (jobs) => jobs.every((job) => job.state === 'pending')],
        ['Move…', 'bulk.move', {}, () => tab.field(/^To the queue/, tab.dialog).fill('bulk.moved'), 'Move 2 jobs', (jobs) => jobs.length === 0],
        ['Delete…', 'bulk.delete', {}, () => {}, 'Delete 2 jobs', (jobs) => jobs.length === 0],
    ];
    for (const [button, queue, more, enter, go, holds] of cases) {
        await make(queue, more);
        const line = await twice(
            queue,
            async () => {
                await many(queue, button);
                await tab.sees(/2 jobs/, tab.dialog);
                await enter();
                const line = await shownCommand();
                await tab.button(go, tab.dialog).click();
                return line;
            },
            holds,
        );
        for (const job of await found(queue)) await server.call('DELETE', `/jobs/${job.id}`);
        await make(queue, more);
        shell(line);
        assert.ok(holds(await found(queue)), `${line} does the same`);
    }
    assert.equal((await found('bulk.moved')).length, 4);
    clean();
});

test('an action on more than ten thousand goes on in the background, shows how far it is while the page is paused, and is stopped', async () => {
    for (let n = 0; n < 12; n += 1) await server.post('/enqueue/batch', { jobs: Array.from({ length: 1000 }, (_, at) => ({ queue: 'crowd', payload: { at } })) });
    await tab.go('/jobs?q=queue:crowd');
    await tab.press('p');
    await tab.button('Cancel…', tab.main).first().click();
    await tab.sees(/12,000 jobs/, tab.dialog);
    await tab.button(/^Cancel 12,000 jobs/, tab.dialog).click();
    await tab.sees(/of 12,000 jobs handled/, tab.dialog);
    // It may be over before anybody can press the button.
    await tab
        .button('Stop', tab.dialog)
        .click({ timeout: 500 })
        .catch(() => undefined);
    await tab.sees(/^Ended: /, tab.dialog);
    await tab.button('Close', tab.dialog).last().click();
    await tab.press('p');
    const [bulk] = (await server.get('/bulk')).bulks;
    assert.ok(['completed', 'stopped', 'cancelled', 'failed'].includes(bulk.status), bulk.status);
    assert.equal((await server.post('/jobs/count', { filter: { queue: 'crowd', state: ['cancelled'] } })).total, bulk.affected);
    clean();
});
