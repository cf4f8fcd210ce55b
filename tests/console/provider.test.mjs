// Signing in with an OpenID Connect provider, from the button to the page that was asked for.
import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Person } from './lib/browser.mjs';
import { CLIENT, Provider } from './lib/provider.mjs';
import { Server } from './lib/server.mjs';

const provider = await Provider.start();
after(() => provider.stop());
const secret = join(mkdtempSync(join(tmpdir(), 'windlass-provider-')), 'secret');
writeFileSync(secret, CLIENT.secret);
const server = await Server.start('--oidc-issuer', provider.url, '--oidc-client-id', CLIENT.id, '--oidc-client-secret-file', secret, '--oidc-role', 'sre=operator');
after(() => server.stop());
await provider.setup(server, { ann: { name: 'Ann', groups: ['staff', 'sre'] }, dan: { name: 'Dan', groups: ['staff'] } });

/** Somebody whom the provider knows. The page goes to the provider and back, so requests to it are expected. */
async function visitor(account) {
    const person = await Person.at(server, { key: null, extraHTTPHeaders: { 'x-account': account } });
    const tab = await person.open('/queues?q=mail');
    const wrong = () => tab.wrong.filter((text) => !text.startsWith(`a request to somebody else: ${provider.url}`));
    return { person, tab, wrong };
}

test('the button leads to the provider and back to the page that was asked for, with the role of the group', async () => {
    const { person, tab, wrong } = await visitor('ann');
    assert.deepEqual(await tab.axe(), []);
    await tab.page.getByRole('link', { name: /^Sign in with/ }).click();
    await tab.page.getByRole('heading', { name: 'Queues' }).waitFor();
    assert.equal(tab.path, '/queues?q=mail');
    await tab.sees(/Ann · operator/);
    assert.deepEqual(wrong(), []);
    await tab.button('Sign out').click();
    await tab.sees('You are signed out.');
    await person.close();
});

test('somebody without a role reads why, and is not signed in', async () => {
    const { person, tab, wrong } = await visitor('dan');
    await tab.page.getByRole('link', { name: /^Sign in with/ }).click();
    await tab.sees(/none of your groups has a role here/);
    assert.ok(!tab.page.url().includes('sign-in='), 'the word has left the address');
    assert.deepEqual(wrong(), []);
    await person.close();
});
