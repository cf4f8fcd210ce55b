// Reads a stream of events from a response. `EventSource` cannot send headers, and the namespace is one.

export interface StreamEvent {
    id: string;
    event: string;
    data: string;
}

/** Calls `seen` for each event until the stream ends; `alive` for everything that arrives, comments included. */
export async function readEvents(body: ReadableStream<Uint8Array>, seen: (event: StreamEvent) => void, alive?: () => void): Promise<void> {
    const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
    let rest = '';
    for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        alive?.();
        rest += value;
        for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
            const event = parse(rest.slice(0, end));
            rest = rest.slice(end + 2);
            if (event) seen(event);
        }
    }
}

function parse(block: string): StreamEvent | null {
    const event: StreamEvent = { id: '', event: 'message', data: '' };
    let found = false;
    for (const line of block.split('\n')) {
        const colon = line.indexOf(':');
        if (colon <= 0) continue;
        const value = line[colon + 1] === ' ' ? line.slice(colon + 2) : line.slice(colon + 1);
        const name = line.slice(0, colon);
        if (name === 'data') {
            event.data += (found ? '\n' : '') + value;
            found = true;
        } else if (name === 'id') event.id = value;
        else if (name === 'event') event.event = value;
    }
    return found ? event : null;
}
