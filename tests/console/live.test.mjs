// What shows by itself: one stream for all tabs, a pause, and what happens when the server goes away and comes back.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { Relay } from './lib/relay.mjs';
import { plugin, Server } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';

const server = await Server.start();
after(() => server.stop());

test('eight tabs share one stream, and each shows what happens', async () => {
    const relay = await Relay.to(server);
    const ana = await Person.at(relay);
    await server.enqueue('shared', {});
    const tabs = [];
    for (let n = 0; n < 8; n += 1) tabs.push(await ana.open('/queues?q=shared'));
    const waiting = (tab) => tab.page.locator('tr', { hasText: 'shared' }).locator('td').nth(2).innerText();
    for (const tab of tabs) await eventually('a tab shows the queue', async () => (await waiting(tab)) === '1');
    assert.equal(relay.open, 1);
    for (let n = 0; n < 3; n += 1) await server.enqueue('shared', {});
    for (const tab of tabs) await eventually('each tab shows the new jobs', async () => (await waiting(tab)) === '4');
    // One that is paused keeps what it shows until it goes on; the others do not care.
    const [paused, other] = tabs;
    await paused.button('Pause', paused.page.locator('header')).click();
    await server.enqueue('shared', {});
    await eventually('the others go on', async () => (await waiting(other)) === '5');
    assert.equal(await waiting(paused), '4');
    await paused.button('Resume', paused.page.locator('header')).click();
    await eventually('it catches up', async () => (await waiting(paused)) === '5');
    // The tab that was first may close.
    await paused.close();
    await server.enqueue('shared', {});
    for (const tab of tabs.slice(1)) await eventually('those that are left live on', async () => (await waiting(tab)) === '6');
    assert.equal(relay.open, 1);
    for (const tab of tabs) assert.deepEqual(tab.wrong, []);
    await ana.close();
    await eventually('nobody listens any more', () => relay.open === 0);
    await relay.close();
});

test('a connection that breaks is there again, and what happened meanwhile is shown', async () => {
    const relay = await Relay.to(server);
    const ana = await Person.at(relay);
    const tab = await ana.open('/queues?q=cut');
    await tab.sees(/^live$/);
    const before = relay.opened;
    relay.cut();
    await server.enqueue('cut', {});
    await tab.sees('cut', tab.main.locator('tbody'));
    assert.ok(relay.opened > before);
    await ana.close();
    await relay.close();
});

test('a server that is killed and started again: a banner comes and goes, and no line of the log is lost or doubled', async () => {
    await server.upload('test-rust', 'steps', plugin('test-rust'));
    const id = await server.enqueue('steps', { mode: 'steps', steps: 60, pause_ms: 60 });
    const ana = await Person.at(server);
    const tab = await ana.open(`/jobs/${id}?tab=log`);
    await tab.sees(/step 5$/, tab.page.locator('.log'));
    await server.kill();
    await tab.sees(/Connection lost, trying again/);
    await server.again();
    await tab.sees('Back: connected again.');
    await tab.misses(/Connection lost/);
    await server.in(id, 'completed');
    await tab.sees(/^completed/);
    const stored = (await server.get(`/jobs/${id}/logs?limit=1000`)).lines.map((line) => line.text);
    // One that was not on the disk yet when the server died is lost with it.
    assert.ok(stored.length >= 50, `${stored.length} lines are stored`);
    assert.deepEqual(await eventually('the page has all lines', async () => {
        const shown = await lines(tab);
        return shown.length === stored.length ? shown : null;
    }), stored);
    // It has said goodbye.
    await tab.misses('Back: connected again.');
    await ana.close();
});

/** The text of each line of the log, from its beginning to its end: only those in view are in the page. */
async function lines(tab) {
    return tab.page.evaluate(async () => {
        const box = document.querySelector('.log');
        const found = new Map();
        for (let top = 0; top <= box.scrollHeight; top += 200) {
            box.scrollTop = top;
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            const first = new DOMMatrix(getComputedStyle(box.querySelector('.log-lines')).transform).m42 / 18;
            [...box.querySelectorAll('.log-line')].forEach((line, at) => found.set(first + at, line.dataset.text));
        }
        return [...found].sort(([a], [b]) => a - b).map(([, text]) => text);
    });
}
