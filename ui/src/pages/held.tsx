// Held jobs: why each waits for a person, what it has cost, and the decision.
import { ActionButton, Empty, JobList, jobColumns, path, PageHead, Time, type Action, type Column, type Job } from '#kit';

const decide = (job: Job, approve: boolean): Action => ({
    label: approve ? 'Approve' : 'Reject',
    does: approve ? `Lets ${job.id} of ${job.queue} run.` : `Ends ${job.id} of ${job.queue} as dead. It can be retried later.`,
    done: approve ? 'Approved' : 'Rejected',
    needs: 'operate',
    method: 'POST',
    path: path(['jobs', job.id, approve ? 'approve' : 'reject']),
    command: ['job', approve ? 'approve' : 'reject', job.id],
    ask: !approve,
});

const cost = (job: Job) => {
    const usd = job.usage?.cost_usd;
    return typeof usd === 'number' ? `$${usd.toFixed(4)}` : <span class="dimmer">–</span>;
};

const extra: Column<Job>[] = [
    { key: 'cost', title: 'Cost', num: true, width: '80px', from: 'l', cell: cost },
    {
        key: 'decide',
        title: '',
        num: true,
        width: '176px',
        from: 's',
        cell: (job) => (
            <span class="row-acts">
                <ActionButton action={decide(job, true)} />
                <ActionButton action={decide(job, false)} />
            </span>
        ),
    },
];
const time: Column<Job> = { key: 'since', title: 'Held', num: true, width: '92px', sort: 'since', cell: (job) => <Time at={job.updated_at} /> };

export default function Held() {
    return (
        <>
            <PageHead title="Held" about="jobs that wait for a person's decision" />
            <JobList
                label="Held jobs"
                base={{ state: ['held'] }}
                states={[]}
                order={{ by: 'since', down: false }}
                actions={['approve', 'reject', 'cancel']}
                columns={jobColumns({ state: false, time, extra })}
                empty={
                    <Empty title="Nothing waits for a decision" command="windlass job hold JOB --reason 'a person looks first'">
                        A job is held by a person, or when its handler asks for approval.
                    </Empty>
                }
            />
        </>
    );
}
