// The OpenID Connect provider of the end-to-end tests, as a child process. It signs in whom a header of the browser names.
import { spawn, execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { ROOT } from './server.mjs';

export const CLIENT = { id: 'windlass', secret: 'the-secret-of-the-client-in-the-tests' };

export class Provider {
    static async start() {
        execFileSync(join(ROOT, 'scripts/sign-in-provider.sh'), { stdio: ['ignore', 'ignore', 'inherit'] });
        const provider = new Provider();
        provider.child = spawn('node', ['provider.mjs'], { cwd: join(ROOT, 'tests/e2e/provider'), stdio: ['pipe', 'pipe', 'inherit'] });
        process.on('exit', () => provider.child.kill());
        provider.url = await new Promise((found, lost) => {
            provider.child.stdout.setEncoding('utf8').on('data', (text) => /^http\S+/m.test(text) && found(/^http\S+/m.exec(text)[0]));
            provider.child.once('exit', (code) => lost(new Error(`the provider ended with ${code}`)));
        });
        return provider;
    }

    /** Who there is, with their groups, and where browsers are sent back to. */
    setup = (server, accounts) => fetch(`${this.url}/test/setup`, { method: 'POST', body: JSON.stringify({ accounts, redirects: [`${server.url}/api/v1/auth/oidc/callback`] }) });

    stop = () => this.child.kill();
}
