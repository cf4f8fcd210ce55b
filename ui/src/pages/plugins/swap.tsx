// Making a version active: at once for new attempts, and for the running ones as one chooses.
import { useState } from 'preact/hooks';
import { Choices, Field, FormDialog, path, plural, show, type Action } from '#kit';
import { activeOf, short, type Plugin, type Version } from './model';

export type How = 'drain' | 'checkpoint' | 'now';

const DEADLINES = ['10s', '60s', '5m', '30m'];

export const openActivate = (plugin: Plugin, version: Version, after: () => void) => show((close) => <Activate plugin={plugin} version={version} close={close} after={after} />);

/** One press: new attempts run on the version before, and nothing that runs is interrupted. Activating that version by hand offers the rest. */
export const rollingBack = (plugin: Plugin, version: Version): Action => ({
    label: 'Roll back',
    does: `Rolls ${plugin.name} back to ${short(version.version)}, which was uploaded before the active one: new attempts run on it from now on, and those that run finish on their version.`,
    done: `${plugin.name} is back on ${short(version.version)}`,
    needs: 'deploy',
    method: 'POST',
    path: path(['plugins', plugin.name, 'rollback']),
    body: { swap: 'drain' },
    command: ['plugin', 'rollback', plugin.name, '--swap', 'drain'],
});


interface Props {
    plugin: Plugin;
    version: Version;
    close(): void;
    after(): void;
}

function Activate({ plugin, version, close, after }: Props) {
    const [how, setHow] = useState<How>('drain');
    const [deadline, setDeadline] = useState('60s');
    const old = activeOf(plugin);
    const n = old?.running ?? 0;
    const [to, from] = [short(version.version), old ? short(old.version) : ''];
    const the = n === 1 ? 'The running attempt' : `The ${n} running attempts`;
    const body = { version: version.version, swap: how, ...(how === 'checkpoint' ? { deadline } : {}) };
    const flags = ['--swap', how, ...(how === 'checkpoint' ? ['--deadline', deadline] : [])];
    const means: Record<How, string> = {
        drain: n ? `${the} of ${from} ${n === 1 ? 'finishes' : 'finish'} there.` : 'Nothing runs on the old one.',
        checkpoint: `${the} of ${from} ${n === 1 ? 'moves' : 'move'} over at the next checkpoint; what saves none within ${deadline} is stopped and resumes from its last one.`,
        now: `${the} of ${from} ${n === 1 ? 'is' : 'are'} asked to stop, stopped by force after 5 s, and ${n === 1 ? 'resumes' : 'resume'} on ${to} from the last checkpoint.`,
    };
    const action: Action = {
        label: 'Activate',
        does: `Makes ${to} the active version of ${plugin.name}: new attempts run on it from now on. ${old ? means[how] : ''}`,
        done: `${to} is active`,
        needs: 'deploy',
        method: 'POST',
        path: path(['plugins', plugin.name, 'activate']),
        body,
        command: ['plugin', 'activate', plugin.name, to, ...flags],
    };
    const schemas = version.manifest.schemas;
    return (
        <FormDialog title={`Activate ${to}`} action={action} close={close} after={after}>
            {old && (
                <Choices<How>
                    legend={n ? `What becomes of the ${plural(n, 'attempt')} that ${n === 1 ? 'runs' : 'run'} now` : 'What becomes of attempts that run'}
                    value={how}
                    set={setHow}
                    of={[
                        ['drain', 'They finish on their version', 'Nothing is interrupted. Both versions run for a while.'],
                        ['checkpoint', 'They move over at their next checkpoint', 'Nothing is done twice. Those that save none in time are stopped, and resume from their last one.'],
                        ['now', 'They are stopped now', 'They resume from their last checkpoint, and do again what they did since. Neither a failure nor a retry is counted.'],
                    ]}
                />
            )}
            {old && how === 'checkpoint' && <Field label="How long to wait for a checkpoint" value={deadline} set={setDeadline} required placeholder="60s" options={DEADLINES} />}
            {old && how !== 'drain' && schemas && <p class="dim">{to} resumes from checkpoints of the schemas {schemas.join(', ')} only. Jobs with others stay on the version that saved theirs.</p>}
            {version.problem && <p class="wrong-line">{version.problem}</p>}
        </FormDialog>
    );
}
