#!/usr/bin/env node
// A worker in plain Node: fetches jobs over HTTP, runs them, reports progress, and acks or fails them.
//
//     make run                                            # in one terminal: a server
//     node examples/worker.mjs counting                   # in another: works on the queue `counting` until Ctrl-C
//     windlass enqueue counting '{"to": 3}' --watch       # in a third: something to do
//
// Put your own handler in place of `countUp`. Backoff, retries, uniqueness, limits and dead letters are the server's
// business. With --once the worker ends after one job.
//
// WINDLASS_URL is the server's address (default http://127.0.0.1:7070), WINDLASS_API_KEY its key if it has one.
// NODE_EXTRA_CA_CERTS, which Node itself reads, is the authority behind its certificate (PEM) if that is your own.
// Needs Node 20 or newer, and no packages.
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

const url = (process.env.WINDLASS_URL || 'http://127.0.0.1:7070').replace(/\/+$/, '');
const key = process.env.WINDLASS_API_KEY;
const worker = `${hostname()}-${process.pid}`;
const heartbeatMs = 5000;
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop.abort());

class Refused extends Error {}

/** One POST. On 429, 503 or without a connection nothing was done, so the request is sent again. */
async function call(path, body, signal) {
    const headers = { 'content-type': 'application/json', ...(key && { 'x-api-key': key }) };
    for (;;) {
        try {
            const request = { method: 'POST', headers, body: JSON.stringify(body), signal };
            const answer = await fetch(`${url}/api/v1${path}`, request);
            const text = await answer.text();
            if (answer.ok) return text ? JSON.parse(text) : undefined;
            if (answer.status !== 429 && answer.status !== 503) throw new Refused(`${path}: ${answer.status} ${text}`);
            await sleep(1000 * (answer.headers.get('retry-after') ?? 1), undefined, { signal });
        } catch (error) {
            if (error instanceof Refused || error.name === 'AbortError') throw error;
            console.error(`${error.cause?.message ?? error.message}; trying again`);
            await sleep(1000, undefined, { signal });
        }
    }
}

/** Runs the handler on a job and says how it ended. */
async function work(fetched, handler) {
    const { job_id: id, lease_token, payload, checkpoint } = fetched;
    let unsent = {};
    let cancelled = false;
    const heartbeat = async () => {
        const sent = unsent;
        unsent = {};
        const { jobs } = await call('/heartbeat', { worker_id: worker, jobs: { [id]: { lease_token, ...sent } } });
        cancelled ||= jobs[id].status === 'cancel';
    };
    // What a handler gets. `report` is sent with the next heartbeat; it throws to stop the handler.
    const job = {
        payload,
        checkpoint,
        async report(current, total, message, checkpoint) {
            unsent = { progress: { current, total, message }, checkpoint };
            await sleep(0); // lets heartbeats and signals be handled in a loop that never waits
            if (stop.signal.aborted) throw new Error('worker_shutdown'); // back to the queue, and no failure
            if (cancelled) throw new Error('cancelled');
        },
    };
    const timer = setInterval(() => heartbeat().catch((error) => console.error(error.message)), heartbeatMs);
    let answer;
    try {
        const result = await handler(job);
        await heartbeat();
        answer = { path: `/ack/${id}`, body: { result, lease_token } };
    } catch (error) {
        answer = { path: `/fail/${id}`, body: { error: error.message, backtrace: error.stack, lease_token } };
    }
    clearInterval(timer);
    try {
        const { status } = await call(answer.path, answer.body);
        console.log(`${id}: ${status === 'ok' ? 'completed' : status}`);
    } catch (error) {
        console.error(`${id}: ${error.message}`); // for example 410: the lease has lapsed, another worker has the job
    }
}

/** The example handler: counts, and resumes from its checkpoint after an interruption. */
async function countUp(job) {
    if (job.payload.fail) throw new Error(job.payload.fail);
    const total = job.payload.to ?? 10;
    for (let n = (job.checkpoint ?? 0) + 1; n <= total; n++) {
        await job.report(n, total, `counted to ${n}`, n);
    }
    return { counted: total };
}

const names = process.argv.slice(2).filter((name) => name !== '--once');
const once = process.argv.includes('--once');
const queues = names.length ? names : ['counting'];
try {
    await fetch(`${url}/healthz`);
    console.error(`${worker} works on ${queues.join(', ')}`);
    for (let jobs = 0; !stop.signal.aborted && !(once && jobs); ) {
        const fetched = await call('/fetch', { queues, worker_id: worker, hostname: hostname() }, stop.signal);
        if (!fetched) continue;
        await work(fetched, countUp);
        jobs++;
    }
} catch (error) {
    const unreachable = `There is no server at ${url}. Start one with \`make run\`, or set WINDLASS_URL.`;
    const stopped = error.name === 'AbortError';
    console.error(stopped ? 'stopped' : error.message === 'fetch failed' ? unreachable : error.message);
    process.exitCode = stopped ? 0 : 1;
}
