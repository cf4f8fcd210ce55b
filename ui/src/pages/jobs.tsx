// All jobs, found by anything.
import { asFlags, Command, Empty, JobList, PageHead, parse, query, quoted, usePaletteEntries, bulkDialog } from '#kit';

const ACTIONS = ['retry', 'cancel', 'hold', 'move', 'change_priority', 'delete'];

export default function Jobs() {
    const typed = query.value.get('q') ?? '';
    const states = (query.value.get('state') ?? '').split(',').filter(Boolean);
    const filter = parse(typed, states);
    usePaletteEntries(
        Object.keys(filter).length ? ACTIONS.map((action) => ({ text: `${action.replace('_', ' ')} all jobs that match`, kind: 'action', run: () => bulkDialog({ filter }, action) })) : [],
        [typed, states.join()],
    );
    return (
        <>
            <PageHead title="Jobs" />
            <JobList
                label="Jobs"
                actions={ACTIONS}
                empty={
                    <Empty title="There are no jobs" command={`windlass enqueue hello '{"to": 10}'`}>
                        Ended jobs are kept for seven days unless a queue says otherwise.
                    </Empty>
                }
            />
            <details class="as-commands">
                <summary>The same search from a terminal</summary>
                <Command text={['windlass', 'search', ...asFlags(filter).map(quoted)].join(' ')} />
            </details>
        </>
    );
}
