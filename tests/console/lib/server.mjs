// The real server as a child process, with a data folder of its own, and its API.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from './wait.mjs';

export const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '../../..');
const BINARY = process.env.WINDLASS_BIN ?? join(ROOT, 'target/debug/windlass');
const PLUGINS = process.env.WINDLASS_PLUGINS ?? join(ROOT, 'target/plugins');

/** The path of a plugin that `plugins/build.sh` has built. */
export function plugin(name) {
    const path = join(PLUGINS, `${name}.wasm`);
    if (!existsSync(path)) throw new Error(`${path} is missing: run plugins/build.sh ${name}`);
    return path;
}

/** The environment in which the command `windlass` is this binary. */
export const SHELL = { ...process.env, PATH: `${dirname(resolve(BINARY))}:${process.env.PATH}` };

/** The same, in which it speaks to a server. */
export const command = (server) => ({ ...SHELL, WINDLASS_URL: server.url, WINDLASS_API_KEY: server.key });

/** A server that refused something; tests that expect it read `status` and `code`. */
export class Refused extends Error {
    constructor(what, status, body) {
        super(`${what} was answered with ${status}: ${JSON.stringify(body)}`);
        this.status = status;
        this.code = body?.code;
    }
}

const children = new Set();
// A test that fails in the middle leaves no server behind.
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));

export class Server {
    /** Starts a server on a free port, with further flags of `windlass serve`. */
    static async start(...flags) {
        const server = new Server();
        server.flags = flags;
        server.data = mkdtempSync(join(tmpdir(), 'windlass-console-'));
        await server.again();
        return server;
    }

    /** Starts it, the first time or after `kill`, at the address that it had. */
    async again() {
        const listen = this.url ? new URL(this.url).host : '127.0.0.1:0';
        const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('WINDLASS_')));
        const ui = process.env.WINDLASS_UI_DIR ? ['--ui-dir', process.env.WINDLASS_UI_DIR] : [];
        // Where servers note their keys for the command, apart from those of the user who runs the tests.
        env.XDG_STATE_HOME = join(this.data, 'state');
        const child = spawn(BINARY, ['serve', '--listen', listen, '--data', this.data, ...ui, ...this.flags], { env, stdio: ['ignore', 'ignore', 'pipe'] });
        children.add(child);
        // One that is left over does not keep the tests from ending: it is killed when they do.
        child.unref();
        child.stderr.unref();
        this.child = child;
        this.said = '';
        this.ended = new Promise((done) => child.once('exit', done));
        child.stderr.setEncoding('utf8').on('data', (text) => (this.said += text));
        this.url = await eventually('the server says where it listens', () => {
            if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}: ${this.said}`);
            return /listening on (http:\S+)/.exec(this.said)?.[1];
        });
        this.key = readFileSync(join(this.data, 'admin.key'), 'utf8').trim();
    }

    /** Ends the process without warning. */
    async kill() {
        this.child.kill('SIGKILL');
        await this.ended;
        children.delete(this.child);
    }

    async stop() {
        await this.kill();
        rmSync(this.data, { recursive: true, force: true });
    }

    /** The response to a request, whatever its status. */
    send(method, path, { body, raw, type = 'application/json', key = this.key, namespace } = {}) {
        const headers = { 'content-type': type, 'x-api-key': key };
        if (namespace) headers['x-windlass-namespace'] = namespace;
        return fetch(`${this.url}/api/v1${path}`, { method, headers, body: raw ?? (body === undefined ? undefined : JSON.stringify(body)) });
    }

    async call(method, path, more = {}) {
        const response = await this.send(method, path, more);
        const text = await response.text();
        let answer = text;
        try {
            answer = text ? JSON.parse(text) : null;
        } catch {
            // Not everything is JSON.
        }
        if (!response.ok) throw new Refused(`${method} ${path}`, response.status, answer);
        return answer;
    }

    get = (path, more) => this.call('GET', path, more);
    post = (path, body, more) => this.call('POST', path, { body: body ?? {}, ...more });

    /** Enqueues a job and returns its id. */
    async enqueue(queue, payload = {}, more = {}, { namespace } = {}) {
        return (await this.post('/enqueue', { queue, payload, ...more }, { namespace })).job_id;
    }

    job = (id) => this.get(`/jobs/${id}`);

    /** Takes the next job of a queue, as a worker does. */
    fetch = (queue, worker = 'tester') => this.post('/fetch', { queues: [queue], worker_id: worker, hostname: 'bench', timeout: 5 });
    ack = (job, result = {}) => this.post(`/ack/${job.job_id}`, { result, lease_token: job.lease_token });
    fail = (job, error, backtrace) => this.post(`/fail/${job.job_id}`, { error, backtrace, lease_token: job.lease_token });
    heartbeat = (job, news, worker = 'tester') => this.post('/heartbeat', { worker_id: worker, jobs: { [job.job_id]: news } });

    /** Enqueues a job that may run once, and lets it fail: it is dead. */
    async dead(queue, error, payload = {}, { backtrace, ...more } = {}) {
        const id = await this.enqueue(queue, payload, { max_retries: 1, ...more });
        await this.fail(await this.fetch(queue), error, backtrace);
        return id;
    }

    /** Waits until a job is in a state. */
    in = (id, ...states) =>
        eventually(`${id} is ${states.join(' or ')}`, async () => {
            const job = await this.job(id);
            if (!states.includes(job.state)) throw new Error(`it is ${job.state}`);
            return job;
        });

    /** A key of a role. */
    async keyOf(role, more = {}) {
        return (await this.post('/auth/keys', { name: `a ${role}`, role, ...more })).key;
    }

    upload = (name, queue, file = plugin(name), query = '') => this.call('PUT', `/plugins/${name}?queues=${queue}${query}`, { raw: readFileSync(file), type: 'application/wasm' });
}
