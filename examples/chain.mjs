#!/usr/bin/env node
// A chain: three jobs, each of which starts when the one before has completed and gets its result.
//
//     make run                    # in one terminal: a server
//     node examples/chain.mjs     # in another
//
// The next step is stored in the same commit as the end of the one before, so a crash loses no step and starts none
// twice. This program enqueues a chain and is the worker of its three queues; plugins could serve them just as well.
//
// WINDLASS_URL is the server's address (default http://127.0.0.1:7070), WINDLASS_API_KEY its key if it has one.
// NODE_EXTRA_CA_CERTS, which Node itself reads, is the authority behind its certificate (PEM) if that is your own.
// Needs Node 20 or newer.

const url = (process.env.WINDLASS_URL || 'http://127.0.0.1:7070').replace(/\/+$/, '');
const key = process.env.WINDLASS_API_KEY;

async function call(method, path, body) {
    const headers = { 'content-type': 'application/json', ...(key && { 'x-api-key': key }) };
    const answer = await fetch(`${url}/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
}

// One handler per queue: payload in, result out. A later step gets the result of the one before as `previous_result`.
const handlers = {
    'examples.chain.price': ({ items }) => ({ total: items.reduce((sum, item) => sum + item.price, 0) }),
    'examples.chain.charge': ({ previous_result, card }) => ({ charged: previous_result.total, card }),
    'examples.chain.receipt': ({ previous_result, to }) => ({ mailed: `${to}: ${previous_result.charged} charged` }),
};
const [price, charge, receipt] = Object.keys(handlers);

async function main() {
    // The job that is enqueued is the first step.
    const { job_id } = await call('POST', '/enqueue', {
        queue: price,
        chain: {
            steps: [
                { queue: price, payload: { items: [{ name: 'rope', price: 30 }, { name: 'hook', price: 12 }] } },
                { queue: charge, payload: { card: '**** 4242' } },
                { queue: receipt, payload: { to: 'anna@example.com' } },
            ],
        },
    });
    const { chain_id } = await call('GET', `/jobs/${job_id}`);
    console.log(`enqueued the chain ${chain_id}`);

    for (let completed = 0; completed < 3; ) {
        const job = await call('POST', '/fetch', { queues: Object.keys(handlers), worker_id: 'chain.mjs', timeout: 5 });
        if (!job) continue;
        const result = handlers[job.queue](job.payload);
        await call('POST', `/ack/${job.job_id}`, { result, lease_token: job.lease_token });
        console.log(`${job.queue}: ${JSON.stringify(job.payload)} -> ${JSON.stringify(result)}`);
        // An earlier run that was interrupted may have left steps of its own in the queues: count those of this chain.
        completed = (await call('POST', '/jobs/search', { chain_id, state: 'completed' })).total;
    }
    console.log(`${chain_id}: 3 of 3 steps completed; see it with: windlass flow show ${chain_id}`);
}

main().catch((error) => {
    const unreachable = `There is no server at ${url}. Start one with \`make run\`, or set WINDLASS_URL.`;
    console.error(error.message === 'fetch failed' ? unreachable : error.message);
    process.exitCode = 1;
});
