#!/usr/bin/env node
// A webhook receiver that verifies signatures as Standard Webhooks describes them (standardwebhooks.com has libraries that do
// the same): it takes events that the server has signed within the last five minutes, and refuses all others.
//
//     make run ARGS=--webhooks-private     # in one terminal: a server that may send to addresses of its own machine
//     node examples/webhook.mjs            # in another
//
// The program listens on a free port, registers itself as a webhook, enqueues a job, and waits for its last event.
// Then it sends itself a forged event and one that was signed an hour ago, which must be refused, and deletes the webhook.
//
// WINDLASS_URL is the server's address (default http://127.0.0.1:7070), WINDLASS_API_KEY its key if it has one.
// NODE_EXTRA_CA_CERTS, which Node itself reads, is the authority behind its certificate (PEM) if that is your own.
// Needs Node 20 or newer.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { on, once } from 'node:events';
import { createServer } from 'node:http';

const url = (process.env.WINDLASS_URL || 'http://127.0.0.1:7070').replace(/\/+$/, '');
const key = process.env.WINDLASS_API_KEY;
const tolerance = 5 * 60; // seconds
let secret = ''; // the server makes it; in production: from your configuration, the same at each start

async function call(method, path, body) {
    const headers = { 'content-type': 'application/json', ...(key && { 'x-api-key': key }) };
    const answer = await fetch(`${url}/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
}

/** The signature of a body: HMAC-SHA256 over `ID.TIMESTAMP.BODY`, with the key that the secret has in Base64. */
function sign(id, timestamp, bytes) {
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
    return createHmac('sha256', key).update(`${id}.${timestamp}.`).update(bytes).digest();
}

/** Whether the server has signed these bytes lately. They are checked as they came, before parsing, and in constant time. */
function isGenuine(headers, bytes) {
    const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
    if (!id || !signatures || !/^\d+$/.test(timestamp ?? '')) return false;
    if (Math.abs(Date.now() / 1000 - Number(timestamp)) > tolerance) return false;
    const expected = sign(id, timestamp, bytes);
    // While a secret is rotated, there is one signature for each of the two; any that is right is enough.
    return signatures.split(' ').some((signature) => {
        const [version, text] = signature.split(',');
        const sent = Buffer.from(text ?? '', 'base64');
        return version === 'v1' && sent.length === expected.length && timingSafeEqual(sent, expected);
    });
}

const seen = new Set(); // their ids; in production: kept, for a delivery whose answer was lost is sent again
const receiver = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    if (!isGenuine(request.headers, bytes)) return response.writeHead(401).end();
    response.writeHead(204).end(); // anything but a 2xx makes the server try again
    const id = request.headers['webhook-id'];
    if (!seen.has(id)) receiver.emit('delivery', JSON.parse(bytes));
    seen.add(id);
});

async function main() {
    await once(receiver.listen(0, '127.0.0.1'), 'listening');
    const here = `http://127.0.0.1:${receiver.address().port}/events`;
    const hook = await call('POST', '/webhook-endpoints', { url: here, events: ['completed', 'dead'] });
    secret = hook.secret; // shown this once
    try {
        const deliveries = on(receiver, 'delivery', { signal: AbortSignal.timeout(60_000) });
        const { job_id } = await call('POST', '/enqueue', { queue: 'demo.digest', payload: { text: 'hello' } });
        let state;
        for await (const [event] of deliveries) {
            console.log(`verified: ${event.job_id} is ${event.type}`); // other jobs may end meanwhile
            if (event.job_id === job_id) {
                state = event.type;
                break;
            }
        }
        const body = JSON.stringify({ type: 'completed', job_id });
        const forged = await fetch(here, { method: 'POST', body });
        console.log(`forged: refused with ${forged.status}`);
        const [id, hourAgo] = ['an-old-one', Math.floor(Date.now() / 1000) - 3600];
        const signature = `v1,${sign(id, hourAgo, body).toString('base64')}`;
        const headers = { 'webhook-id': id, 'webhook-timestamp': String(hourAgo), 'webhook-signature': signature };
        const old = await fetch(here, { method: 'POST', headers, body });
        console.log(`signed an hour ago: refused with ${old.status}`);
        console.log(`${job_id}: ${state}`);
        process.exitCode = forged.status === 401 && old.status === 401 && state === 'completed' ? 0 : 1;
    } finally {
        await call('DELETE', `/webhook-endpoints/${hook.id}`);
    }
}

main()
    .catch((error) => {
        const unreachable = `There is no server at ${url}. Start one with \`make run\`, or set WINDLASS_URL.`;
        console.error(error.message === 'fetch failed' ? unreachable : error.message);
        process.exitCode = 1;
    })
    .finally(() => receiver.close());
