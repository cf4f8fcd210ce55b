// What is done with a flow as a whole: its dead jobs are retried, its open ones cancelled, and a batch is sealed.
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

/** A batch with a job that has completed, one that is dead, one that runs and one that waits. */
async function batch() {
    const part = (n) => ({ queue: 'parts', payload: { n }, max_attempts: 1 });
    const { batch_id, job_ids } = await server.post('/enqueue/batch', { jobs: [0, 1, 2, 3].map(part), batch: { callback_queue: 'whole' } });
    await server.ack(await server.fetch('parts'), { rows: 3 });
    await server.fail(await server.fetch('parts'), 'part 1 has no rows');
    await server.fetch('parts');
    return { id: batch_id, jobs: job_ids };
}

test('the dead jobs of a flow are retried, and those that are open are cancelled', async () => {
    const { id, jobs } = await batch();
    await tab.go(`/flows/${id}`);
    await tab.button('Retry 1 dead…', tab.main).click();
    await tab.sees(/Retries 1 dead job/, tab.dialog);
    await tab.button('Retry 1 dead', tab.dialog).click();
    await server.in(jobs[1], 'pending');
    await tab.button('Cancel…', tab.main).click();
    await tab.sees(/Cancels 3 open jobs/, tab.dialog);
    await tab.button('Cancel', tab.dialog).click();
    await server.in(jobs[3], 'cancelled');
    await server.in(jobs[1], 'cancelled');
    clean();
});

test('a batch that is open is sealed, and its callback follows', async () => {
    const { batch_id } = await server.post('/batch', { callback_queue: 'sealed.done' });
    const id = await server.enqueue('sealed', {}, { batch_id });
    await server.ack(await server.fetch('sealed'));
    await server.in(id, 'completed');
    await tab.go(`/flows/${batch_id}`);
    await tab.button('Seal…', tab.main).click();
    await tab.button('Seal', tab.dialog).click();
    await eventually('its callback is enqueued', async () => (await server.post('/jobs/search', { queue: 'sealed.done' })).total === 1);
    clean();
});
