// Puts something of everything into a server, so that no page is empty.
const later = (minutes) => new Date(Date.now() + minutes * 60_000).toISOString();

/** A guest that is quick to compile, where one is needed but not run. */
export const PLUGIN = 'checksum';

/** Names of what was made: samples for addresses. */
export async function fill(server) {
    const queue = 'emails.send';
    const job = await jobs(server, queue);
    const flow = await flows(server);
    await server.post('/queues/crawl.pages/settings', { rounds: true });
    for (const at of [1, 2, 3]) await server.enqueue('crawl.pages', { url: `https://example.com/${at}` });
    await server.post('/queues/archive/pause');
    await server.post('/schedules', { name: 'month-end', queue: 'reports', cron: '0 6 1 * *', timezone: 'Europe/Berlin', payload: { pages: 40 } });
    await server.post('/schedules/month-end/run');
    const { id: webhook } = await server.post('/webhooks', { url: 'https://example.com/hook', events: ['dead'], enabled: false });
    await server.call('PUT', '/secrets/smtp-password', { raw: 'not-shown-anywhere', type: 'text/plain' });
    await server.post('/auth/keys', { name: 'billing', role: 'producer' });
    await server.post('/namespaces', { name: 'acme' });
    const { version } = await server.upload(PLUGIN, 'sums');
    await server.enqueue('sums', { text: 'hello' });
    return { queue, job, flow, rounds: 'crawl.pages', schedule: 'month-end', worker: 'tester', plugin: PLUGIN, version, webhook };
}

/** Jobs in every state; returns a dead one with a checkpoint and a retried one. */
async function jobs(server, queue) {
    const tags = { tenant: 'acme' };
    await server.enqueue(queue, { to: 'ana@example.com', template: 'welcome' }, { tags });
    await server.ack(await server.fetch(queue), { sent: true });
    for (const [at, error] of ['SMTP timeout after 30 s', 'SMTP timeout after 31 s', 'the mailbox of user-7 is full'].entries()) {
        await server.dead(queue, error, { to: `user-${at}@example.com`, amount: 9007199254740993 }, { backtrace: 'mailer::send\n  at mailer.rs:88', tags });
    }
    const dead = await server.enqueue(queue, { to: 'b@example.com' }, { max_retries: 1, tags });
    const taken = await server.fetch(queue);
    await server.heartbeat(taken, { progress: { current: 12, total: 40, message: 'Rendering page 12 of 40' }, checkpoint: { page: 12 } });
    await server.fail(taken, 'memory: 256 MiB is the limit, and the guest asked for 12 MiB more', 'render::draw\n  at chart.rs:88');
    const retried = await server.enqueue(queue, { to: 'c@example.com' }, { max_retries: 5, retry_base_delay: '1h' });
    await server.fail(await server.fetch(queue), '429 from the mail server');
    await server.enqueue(queue, { to: 'd@example.com' }, { scheduled_at: later(90) });
    const held = await server.enqueue('payments', { order: 1, cents: 1250000 });
    await server.post(`/jobs/${held}/hold`, { reason: 'above 10,000: a person decides' });
    const cancelled = await server.enqueue(queue, { to: 'e@example.com' }, { scheduled_at: later(5) });
    await server.post(`/jobs/${cancelled}/cancel`, { reason: 'a mistake' });
    const active = await server.enqueue('reports', { pages: 40 });
    await server.heartbeat(await server.fetch('reports'), { progress: { current: 8, total: 40, message: 'Rendering page 8 of 40' }, checkpoint: { page: 8 } });
    await server.enqueue(queue, { to: 'f@example.com' }, { depends_on: [active] });
    await server.enqueue('nobody.serves', { n: 1 });
    return [dead, active, retried, held];
}

/** A batch, a chain, and their ids. */
async function flows(server) {
    const part = (n) => ({ queue: 'batch.part', payload: { part: n } });
    const batch = await server.post('/enqueue/batch', { jobs: Array.from({ length: 6 }, (_, n) => part(n)), batch: { callback_queue: 'batch.done', callback_payload: { of: 'parts' } } });
    await server.ack(await server.fetch('batch.part'), { rows: 3 });
    await server.fail(await server.fetch('batch.part'), 'part 1 has no rows');
    const steps = ['orders.pack', 'orders.ship', 'orders.bill'].map((queue) => ({ queue, payload: {} }));
    const first = await server.enqueue('orders.pack', { order: 77 }, { chain: { steps } });
    const { chain_id } = await server.job(first);
    return [batch.batch_id, chain_id];
}

export const SCRIPT = `<script>window.ran = 1</script><img src=x onerror="window.ran = 1"><a href="javascript:window.ran=1">x</a>`;
/** Text that turns around what follows it, in a script that runs from right to left, and emoji that are made of several. */
const TURNED = '\u202eمرحبا بالعالم \u2066שלום\u2069 👩‍👩‍👧‍👦🏳️‍🌈 e\u0301 \u0000';
const LONG = 'a-word-without-any-space-'.repeat(400);
/** As hostile as a queue's name may be. */
const NAME = `..//::--__${'W'.repeat(118)}`;

/** Everything that others can write, in its most unpleasant form. */
export async function fillHostile(server) {
    const queue = NAME;
    const text = `${SCRIPT} ${TURNED} ${LONG}`;
    const tags = { '<b>tag</b>': SCRIPT.slice(0, 60), 'لون': '👩‍👩‍👧‍👦' };
    const payload = { [SCRIPT]: text, text, deep: JSON.parse('['.repeat(60) + ']'.repeat(60)), big: 12345678901234567890n.toString() };
    // A queue gets its rounds before its first job.
    const rounds = `${NAME.slice(0, -1)}R`;
    await server.post(`/queues/${encodeURIComponent(rounds)}/settings`, { rounds: true });
    await server.enqueue(rounds, text);
    const dead = await server.enqueue(queue, payload, { max_retries: 1, tags });
    const taken = await server.fetch(queue, SCRIPT.slice(0, 60));
    await server.heartbeat(taken, { progress: { current: 1, total: 2, message: text.slice(0, 900), phase: SCRIPT.slice(0, 60) }, checkpoint: { text } }, SCRIPT.slice(0, 60));
    await server.fail(taken, text, text);
    const held = await server.enqueue(queue, text, { tags });
    await server.post(`/jobs/${held}/hold`, { reason: text.slice(0, 900) });
    const done = await server.enqueue(queue, SCRIPT, {});
    await server.ack(await server.fetch(queue), { [SCRIPT]: text });
    const cancelled = await server.enqueue(queue, {}, { scheduled_at: later(60) });
    await server.post(`/jobs/${cancelled}/cancel`, { reason: text.slice(0, 900) });
    await server.enqueue(queue, text, { scheduled_at: later(60), unique_key: SCRIPT.slice(0, 60) });
    const active = await server.enqueue(queue, text, {});
    await server.heartbeat(await server.fetch(queue), { progress: { message: text.slice(0, 900) } });
    const children = await server.post('/enqueue/batch', { jobs: [{ queue, payload: text }, { queue, payload: SCRIPT }], batch: { callback_queue: queue } });
    await server.post('/schedules', { name: NAME.slice(0, 60), queue, cron: '0 6 1 * *', payload: { text } });
    await server.post('/auth/keys', { name: SCRIPT.slice(0, 60), role: 'producer' });
    await server.upload(PLUGIN, 'sums');
    // What a handler writes to its error output is in its log.
    await server.upload('test-rust', 'talks');
    const talker = await server.enqueue('talks', { mode: 'panic', text }, { max_attempts: 1 });
    await server.in(talker, 'dead');
    return { queue, talker, job: [dead, held, done, cancelled, active], flow: [children.batch_id], rounds, schedule: NAME.slice(0, 60), worker: SCRIPT.slice(0, 60), plugin: PLUGIN };
}
