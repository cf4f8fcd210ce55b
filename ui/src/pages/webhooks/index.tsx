// Webhooks: where events are sent, queues that take signed requests of others, and who may enqueue without a key.
import { href, may, PageHead, query, Tabs } from '#kit';
import { Hook } from './hook';
import { Inbound } from './inbound';
import { Outgoing } from './outgoing';
import { Rules } from './rules';

export default function Webhooks() {
    const administers = may('administer');
    const tab = administers ? (query.value.get('tab') ?? '') : '';
    const hook = query.value.get('hook');
    if (hook) return <Hook id={hook} />;
    return (
        <>
            <PageHead title="Webhooks" />
            <Tabs
                label="Webhooks"
                tabs={[{ key: '', title: 'Outgoing' }, ...(administers ? [{ key: 'incoming', title: 'Incoming' }, { key: 'rules', title: 'Enqueue rules' }] : [])]}
                current={tab}
                href={(tab) => href('/webhooks', { tab })}
            />
            {tab === 'incoming' ? <Inbound /> : tab === 'rules' ? <Rules /> : <Outgoing />}
        </>
    );
}
