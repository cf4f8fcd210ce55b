// A plugin from the file to the rollback: uploaded without being activated, reviewed, granted what it asks for, tried out and swapped.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { component, toml, wasm } from './lib/component.mjs';
import { plugin, Server } from './lib/server.mjs';
import { eventually } from './lib/wait.mjs';

const server = await Server.start();
const ana = await Person.at(server);
const tab = await ana.open('/plugins');
after(() => server.stop());
beforeEach(() => (tab.wrong.length = 0));
const clean = () => assert.deepEqual(tab.wrong, []);
const stored = (name) => server.get(`/plugins/${name}`);
const asking = (host) => toml(`queues = ["fetched"]\n\n[capabilities]\nhttp = ["${host}"]\n`);

test('a plugin is uploaded, reviewed and activated', async () => {
    await tab.go('/plugins');
    await tab.sees('There are no plugins yet');
    await tab.button(/^Upload/, tab.main).click();
    await tab.dialog.locator('input[type=file]').setInputFiles([wasm('fetcher', component('checksum')), asking('one.example.com')]);
    assert.equal(await tab.field('Name of the plugin', tab.dialog).inputValue(), 'fetcher');
    await tab.button('Upload and review', tab.dialog).click();
    await tab.sees('is stored, and runs nothing yet');
    assert.equal((await stored('fetcher')).active, null);
    await tab.sees('one.example.com', tab.main);
    await tab.button('Activate…', tab.main).click();
    await tab.button('Activate', tab.dialog).click();
    await eventually('it is active', async () => (await stored('fetcher')).active);
    clean();
});

test('a new version says what it could reach that the old one could not, before it is activated, and is rolled back', async () => {
    const before = (await stored('fetcher')).active;
    await tab.go('/plugins/fetcher');
    await tab.button('Upload a version…').click();
    await tab.dialog.locator('input[type=file]').setInputFiles([wasm('fetcher', component('checksum', 'two')), asking('two.example.com')]);
    await tab.button('Upload and review', tab.dialog).click();
    await tab.sees('is stored, and runs nothing yet');
    const reach = tab.page.locator('.reach');
    assert.match(await reach.getByText(/two\.example\.com/).first().locator('xpath=..').innerText(), /denied|new/);
    await tab.button('Grant what it asks for…').click();
    await tab.dialog.getByRole('checkbox', { name: /two\.example\.com/ }).check();
    await tab.button('Save the grants', tab.dialog).click();
    await eventually('it is granted', async () => JSON.stringify((await stored('fetcher')).grant).includes('two.example.com'));
    await tab.button('Activate…', tab.main).click();
    await tab.button('Activate', tab.dialog).click();
    await eventually('the new one is active', async () => (await stored('fetcher')).active !== before);
    await tab.go('/plugins/fetcher');
    await tab.button('Roll back').click();
    await eventually('the old one is active again', async () => (await stored('fetcher')).active === before);
    clean();
});

test('a file that is dropped on the page is a new version; one that is no component is refused with the reason', async () => {
    await tab.go('/plugins/fetcher');
    const drop = (name, bytes) =>
        tab.page.evaluate(
            ([name, bytes]) => {
                const data = new DataTransfer();
                data.items.add(new File([new Uint8Array(bytes)], name));
                for (const type of ['dragover', 'drop']) document.querySelector('main').dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
            },
            [name, [...bytes]],
        );
    await drop('notes.wasm', Buffer.from('not a component at all'));
    await tab.sees('notes.wasm is not WebAssembly.', tab.dialog);
    await tab.button('Back', tab.dialog).click();
    await drop('fetcher.wasm', component('checksum', 'dropped'));
    await tab.sees('fetcher.wasm', tab.dialog);
    await tab.button('Back', tab.dialog).click();
    clean();
});

test('a version is tried on a share of the attempts, promoted, and the trial shows while it runs', async () => {
    await tab.go('/plugins/fetcher');
    const { versions, active } = await stored('fetcher');
    const other = versions.find((one) => one.version !== active);
    await tab.go(`/plugins/fetcher?version=${other.version.slice(0, 12)}`);
    await tab.button(/canary/i, tab.main).first().click();
    await tab.button('Start the canary', tab.dialog).click();
    await eventually('it is on trial', async () => (await stored('fetcher')).canary?.version === other.version);
    await tab.go('/plugins/fetcher');
    await tab.sees(/of new attempts/);
    await tab.button('Promote…', tab.main).click();
    await tab.button('Promote', tab.dialog).click();
    await eventually('it is active', async () => (await stored('fetcher')).active === other.version);
    clean();
});

test('a canary shows how what its attempts use is spread, and is aborted', async () => {
    const { versions, active } = await stored('fetcher');
    const other = versions.find((one) => one.version !== active);
    await server.post('/plugins/fetcher/canary', { version: other.version, share: 50 });
    for (let n = 0; n < 6; n += 1) await server.enqueue('fetched', { text: `line ${n}` });
    await eventually('its attempts have ended', async () => (await stored('fetcher')).canary?.ended >= 1);
    await tab.go('/plugins/fetcher');
    const spread = tab.page.locator('.against');
    for (const what of ['CPU', 'Memory', 'Time', 'half', '95 %', '99 %', 'most']) await tab.sees(what, spread);
    await eventually('both versions have figures', async () => (await spread.locator('tr').allInnerTexts()).filter((row) => /(active|canary)\s+[\d.]/.test(row.replace(/\s+/g, ' '))).length >= 3);
    await tab.button('Abort…', tab.main).click();
    await tab.button('Abort', tab.dialog).click();
    await eventually('it has ended', async () => (await stored('fetcher')).canary === null);
    clean();
});

test('a manifest is edited as text, and what it may not say is refused with the reason', async () => {
    await tab.go('/plugins/fetcher?tab=manifest');
    await tab.button('Edit…', tab.main).click();
    const text = tab.field('windlass.toml', tab.dialog);
    const before = await text.inputValue();
    await text.fill(`${before}\nno-such-field = 1\n`);
    await tab.button('Replace the manifest', tab.dialog).click();
    await tab.dialog.getByRole('alert').waitFor();
    // The browser reports each refusal, and this one was meant.
    tab.wrong.length = 0;
    await text.fill(`reuse = 5\n${before.replace(/^reuse.*\n/m, '')}`);
    await tab.button('Replace the manifest', tab.dialog).click();
    await eventually('it is replaced', async () => {
        const { versions, active } = await stored('fetcher');
        return versions.find((one) => one.version === active).manifest.reuse === 5;
    });
    clean();
});

test('a swap is watched: attempts move to the new version at their next checkpoint, and go on there', async () => {
    await server.upload('mover', 'moved', plugin('test-rust'));
    const old = (await stored('mover')).active;
    const second = await server.call('PUT', '/plugins/mover?queues=moved&activate=false', { raw: component('test-rust', 'swap'), type: 'application/wasm' });
    const ids = [];
    for (let n = 0; n < 2; n += 1) ids.push(await server.enqueue('moved', { mode: 'steps', steps: 4000, pause_ms: 50 }));
    for (const id of ids) await server.in(id, 'active');
    await tab.go(`/plugins/mover?version=${second.version.slice(0, 12)}`);
    await tab.button('Activate…', tab.main).click();
    await tab.dialog.getByText('They move over at their next checkpoint').click();
    await tab.button('Activate', tab.dialog).click();
    await tab.sees(/^Swap under way: at the next checkpoint|^The swap is over/, tab.main);
    await tab.sees(/2 went on where the old one stopped/, tab.main);
    await tab.sees(/^The swap is over/, tab.main);
    for (const id of ids) assert.notEqual((await server.job(id)).plugin_version, old);
    // Another tab, which did not begin it, knows how it is done, too.
    for (const id of ids) await server.post(`/jobs/${id}/cancel`, { grace: '0s' });
    clean();
});

test('a version is deleted, and then the plugin with all that it has', async () => {
    const { versions, active } = await stored('mover');
    const other = versions.find((one) => one.version !== active).version;
    await tab.go(`/plugins/mover?version=${other.slice(0, 12)}`);
    await tab.button('Delete the version…', tab.main).click();
    await tab.button('Delete the version', tab.dialog).click();
    await eventually('it is gone', async () => (await stored('mover')).versions.length === 1);
    await tab.go('/plugins/mover');
    await tab.button('Delete the plugin…', tab.main).click();
    await tab.sees(/Deletes mover with all its 1 versions/, tab.dialog);
    await tab.button('Delete the plugin', tab.dialog).click();
    await eventually('it is gone', async () => (await server.send('GET', '/plugins/mover')).status === 404);
    await eventually('the list of plugins is shown', () => tab.path === '/plugins');
    clean();
});
