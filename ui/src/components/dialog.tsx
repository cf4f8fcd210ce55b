// Dialogs: the browser's own, which keep the focus inside, close with Escape and give the focus back.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { signal } from '@preact/signals';

export function Dialog(props: { title: string; onClose(): void; children: ComponentChildren; foot?: ComponentChildren; wide?: boolean; class?: string }) {
    const ref = useRef<HTMLDialogElement>(null);
    // Before anything else can happen: what somebody types right after opening it belongs into it.
    useLayoutEffect(() => {
        const dialog = ref.current;
        const before = document.activeElement;
        if (dialog && !dialog.open) dialog.showModal();
        return () => {
            dialog?.close();
            // The browser gives the focus back only to what is still there when it is asked; a dialog that is removed has no time for it.
            if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
        };
    }, []);
    return (
        <dialog
            ref={ref}
            class={`dialog ${props.wide ? 'wide' : ''} ${props.class ?? ''}`}
            aria-label={props.title}
            onCancel={(event) => {
                event.preventDefault();
                props.onClose();
            }}
            onClick={(event) => event.target === ref.current && props.onClose()}
        >
            <div class="dialog-inner">
                <div class="dialog-head">
                    <h2>{props.title}</h2>
                    <button type="button" class="quiet" aria-label="Close" onClick={props.onClose}>
                        ×
                    </button>
                </div>
                <div class="dialog-body">{props.children}</div>
                {props.foot && <div class="dialog-foot">{props.foot}</div>}
            </div>
        </dialog>
    );
}

/** The dialog that is open, if any; one at a time. */
const open = signal<(() => ComponentChildren) | null>(null);

/** Shows a dialog; `close` removes it. */
export function show(dialog: (close: () => void) => ComponentChildren) {
    const close = () => {
        if (open.value === drawn) open.value = null;
    };
    const drawn = () => dialog(close);
    open.value = drawn;
}

export const DialogPlace = () => <>{open.value?.()}</>;
