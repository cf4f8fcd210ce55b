// Jobs that wait for their time: those enqueued for later, and those that will be tried again.
import { ActionButton, Empty, JobList, jobColumns, path, PageHead, Time, type Action, type Column, type Job } from '#kit';

const runNow = (job: Job): Action => ({
    label: 'Run now',
    does: `${job.id} of ${job.queue} waits no longer.`,
    done: 'It runs as soon as its queue lets it',
    needs: 'operate',
    method: 'POST',
    path: path(['jobs', job.id, 'run-now']),
    command: ['job', 'run-now', job.id],
});

const extra: Column<Job>[] = [{ key: 'do', title: '', num: true, width: '100px', from: 's', cell: (job) => <ActionButton action={runNow(job)} /> }];
const time: Column<Job> = { key: 'due', title: 'Due', num: true, width: '92px', sort: 'scheduled_at', cell: (job) => <Time at={job.scheduled_at} future /> };

export default function Scheduled() {
    return (
        <>
            <PageHead title="Scheduled" about="jobs that wait for their time, the next first" />
            <JobList
                label="Scheduled and retrying jobs"
                base={{ state: ['scheduled', 'retrying'] }}
                states={[]}
                order={{ by: 'scheduled_at', down: false }}
                actions={['run_now', 'cancel', 'hold', 'move', 'change_priority', 'delete']}
                columns={jobColumns({ time, extra })}
                empty={
                    <Empty title="No job waits for its time" command={`windlass enqueue hello '{"to": 10}' --delay 10m`}>
                        Jobs come here when they are enqueued for later, or when an attempt failed and another will follow.
                    </Empty>
                }
            />
        </>
    );
}
