// A form from a JSON Schema. It changes the text of the payload and nothing else: what it does not know stays, and so does every digit.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Check, Field, firstError, JsonEditor, members, pretty, root, Select } from '#kit';

export interface Schema {
    type?: string | string[];
    title?: string;
    description?: string;
    properties?: Record<string, Schema>;
    required?: string[];
    items?: Schema;
    enum?: unknown[];
    default?: unknown;
    examples?: unknown[];
    minimum?: number;
    maximum?: number;
    format?: string;
    $ref?: string;
    $defs?: Record<string, Schema>;
    definitions?: Record<string, Schema>;
}

/** `#/$defs/Address` within the same schema. */
function resolved(schema: Schema, whole: Schema): Schema {
    const [, name] = /^#\/(?:\$defs|definitions)\/(.+)$/.exec(schema.$ref ?? '') ?? [];
    const found = name ? (whole.$defs?.[name] ?? whole.definitions?.[name]) : undefined;
    return found ? { ...found, ...schema, $ref: undefined } : schema;
}

/** The text of each member; null if the text is no object. */
function parts(text: string): Map<string, string> | null {
    if (firstError(text)) return null;
    const node = root(text);
    if (node.kind !== 'object') return null;
    return new Map(members(text, node, Infinity).nodes.map((one) => [String(one.name), text.slice(one.start, one.end)]));
}

/** With another member, or without it. */
function put(text: string, name: string, raw: string | undefined): string {
    const all = parts(text) ?? new Map<string, string>();
    if (raw === undefined) all.delete(name);
    else all.set(name, raw);
    return pretty(`{${[...all].map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`);
}

/** Whether there is a form for it: an object with known members. */
export const hasForm = (schema: unknown): schema is Schema => typeof schema === 'object' && schema !== null && Object.keys((schema as Schema).properties ?? {}).length > 0;

/** What a schema suggests to begin with. */
export function starting(schema: Schema, whole = schema): string {
    let text = '{}';
    for (const [name, raw] of Object.entries(schema.properties ?? {})) {
        const one = resolved(raw, whole);
        const value = one.default ?? one.examples?.[0];
        if (value !== undefined) text = put(text, name, JSON.stringify(value));
        else if (schema.required?.includes(name) && one.properties) text = put(text, name, starting(one, whole));
    }
    return pretty(text);
}

/** The order of members is lost on the way; what is required has one. */
function inOrder({ properties = {}, required = [] }: Schema): [string, Schema][] {
    const place = ([name]: [string, Schema]) => (required.includes(name) ? required.indexOf(name) : required.length);
    return Object.entries(properties).sort((a, b) => place(a) - place(b));
}

export function SchemaForm({ schema, whole = schema, text, set }: { schema: Schema; whole?: Schema; text: string; set(text: string): void }) {
    const found = parts(text.trim() || '{}');
    if (!found) return <p class="wrong-line">The payload is not an object: the form shows it again when it is.</p>;
    const lacking = (schema.required ?? []).filter((name) => !found.has(name));
    return (
        <div class="stack tight">
            {inOrder(schema).map(([name, one]) => (
                <Member
                    key={name}
                    name={name}
                    schema={resolved(one, whole)}
                    whole={whole}
                    required={schema.required?.includes(name) ?? false}
                    raw={found.get(name)}
                    set={(raw) => set(put(text.trim() || '{}', name, raw))}
                />
            ))}
            {lacking.length > 0 && <p class="dim">Still needed: {lacking.join(', ')}.</p>}
        </div>
    );
}

interface MemberProps {
    name: string;
    schema: Schema;
    whole: Schema;
    required: boolean;
    raw: string | undefined;
    set(raw: string | undefined): void;
}

function Member({ name, schema, whole, required, raw, set }: MemberProps) {
    const type = [schema.type].flat().find((one) => one !== 'null');
    const label = (
        <>
            {schema.title ?? name}
            {required && <span class="dimmer"> needed</span>}
        </>
    );
    const item = schema.items ? resolved(schema.items, whole) : undefined;
    if (schema.enum) {
        const choices = schema.enum.map((one) => JSON.stringify(one));
        const of = Object.fromEntries([...(required && raw ? [] : [['', '–']]), ...choices.map((one) => [one, one.replace(/^"|"$/g, '')])]) as Record<string, string>;
        return <Select label={label} value={raw ?? ''} of={of} set={(to) => set(to || undefined)} />;
    }
    if (type === 'boolean') return <Check label={label} checked={raw === 'true'} set={(on) => set(String(on))} />;
    if (schema.properties) {
        return (
            <fieldset class="nested">
                <legend>{label}</legend>
                <SchemaForm schema={schema} whole={whole} text={raw ?? '{}'} set={set} />
            </fieldset>
        );
    }
    if (type === 'string') return <Field label={label} value={raw?.startsWith('"') ? String(JSON.parse(raw)) : (raw ?? '')} set={(text) => set(text || required ? JSON.stringify(text) : undefined)} placeholder={example(schema)} hint={schema.description} />;
    if (type === 'integer' || type === 'number') return <NumberField label={label} schema={schema} raw={raw} set={set} />;
    if (type === 'array' && [item?.type].flat().includes('string') && !item?.enum) return <Lines label={label} raw={raw} set={set} hint={schema.description} />;
    return <Raw label={schema.title ?? name} raw={raw} set={set} />;
}

const example = (schema: Schema) => {
    const value = schema.examples?.[0] ?? schema.default ?? (schema.format === 'date-time' ? '2026-12-24T18:00:00Z' : undefined);
    return value === undefined ? undefined : String(value);
};

/** A number stays the text that it is: there is no largest one. */
function NumberField({ label, schema, raw, set }: { label: ComponentChildren; schema: Schema; raw: string | undefined; set(raw: string | undefined): void }) {
    const [text, setText] = useState(raw ?? '');
    useEffect(() => setText(raw ?? ''), [raw]);
    const fits = (value: string) => value === '' || (schema.type === 'integer' ? /^-?(0|[1-9]\d*)$/ : /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/).test(value);
    const bounds = [schema.minimum !== undefined && `at least ${schema.minimum}`, schema.maximum !== undefined && `at most ${schema.maximum}`].filter(Boolean).join(', ');
    const change = (value: string) => {
        setText(value);
        if (fits(value)) set(value || undefined);
    };
    return <Field label={label} value={text} set={change} placeholder={example(schema)} aria-invalid={!fits(text)} hint={fits(text) ? [schema.description, bounds].filter(Boolean).join(' · ') || undefined : <span class="wrong-line">This is not a number.</span>} />;
}

/** Texts, one on each line. */
function Lines({ label, raw, set, hint }: { label: ComponentChildren; raw: string | undefined; set(raw: string | undefined): void; hint?: string }) {
    const lines = raw?.startsWith('[') ? (JSON.parse(raw) as unknown[]).map(String) : [];
    return (
        <label class="field">
            <span>{label}</span>
            <textarea rows={3} spellcheck={false} value={lines.join('\n')} onInput={(event) => set(event.currentTarget.value ? JSON.stringify(event.currentTarget.value.split('\n')) : undefined)} />
            <span class="hint">{hint ? `${hint} · ` : ''}one on each line</span>
        </label>
    );
}

/** Whatever else: as JSON. */
function Raw({ label, raw, set }: { label: string; raw: string | undefined; set(raw: string | undefined): void }) {
    const [text, setText] = useState(raw ?? '');
    useEffect(() => setText(raw ?? ''), [raw]);
    const change = (value: string) => {
        setText(value);
        if (value.trim() === '') set(undefined);
        else if (!firstError(value)) set(value);
    };
    return <JsonEditor label={label} value={text} set={change} rows={4} empty="" />;
}
