// An editor for JSON: plain text, so that numbers of any size stay as they are, with the place of what is wrong.
import { useId, useMemo, useRef } from 'preact/hooks';
import { firstError } from './check';
import { pretty } from './scan';

interface Props {
    label: string;
    value: string;
    set(text: string): void;
    rows?: number;
    /** Nothing written stands for this. */
    empty?: string;
    autofocus?: boolean;
}

export function JsonEditor({ label, value, set, rows = 12, empty, autofocus }: Props) {
    const id = useId();
    const area = useRef<HTMLTextAreaElement>(null);
    const blank = value.trim() === '' && empty !== undefined;
    const wrong = useMemo(() => (blank ? null : firstError(value)), [value, blank]);
    const show = () => {
        if (!wrong || !area.current) return;
        area.current.focus();
        area.current.setSelectionRange(wrong.at, Math.min(value.length, wrong.at + 1));
    };
    return (
        <div class="json-edit">
            <div class="json-edit-head">
                <label for={id}>{label}</label>
                {!wrong && !blank && (
                    <button type="button" class="quiet small" onClick={() => set(pretty(value))}>
                        Format
                    </button>
                )}
            </div>
            <textarea
                id={id}
                ref={area}
                rows={rows}
                spellcheck={false}
                placeholder={empty}
                value={value}
                aria-invalid={wrong !== null}
                aria-describedby={`${id}-wrong`}
                autofocus={autofocus}
                onInput={(event) => set(event.currentTarget.value)}
            />
            <p id={`${id}-wrong`} class="json-edit-foot" role="status">
                {wrong && (
                    <>
                        <button type="button" class="quiet small" onClick={show}>
                            Line {wrong.line}, column {wrong.column}
                        </button>
                        <span class="wrong-line">{wrong.why}</span>
                    </>
                )}
            </p>
        </div>
    );
}
