// A plugin from the file to the rollback: uploaded without being activated, reviewed, granted what it asks for, tried out and swapped.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { component, toml, wasm } from './lib/component.mjs';
import { Server } from './lib/server.mjs';
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
    await tab.button('Roll back…').click();
    await tab.button('Roll back', tab.dialog).click();
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
