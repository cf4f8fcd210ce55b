// A relay in front of a server that counts the streams which are open through it, and can cut them.
import http from 'node:http';

export class Relay {
    static async to(server) {
        const relay = new Relay();
        /** How many streams of the pulse are open now, and how many have ever been opened. */
        relay.open = 0;
        relay.opened = 0;
        relay.sockets = new Set();
        const { port } = new URL(server.url);
        relay.listener = http.createServer((request, response) => {
            const onward = http.request({ host: '127.0.0.1', port, path: request.url, method: request.method, headers: request.headers }, (answer) => {
                response.writeHead(answer.statusCode, answer.headers);
                answer.pipe(response);
            });
            if (request.url.startsWith('/api/v1/pulse')) {
                relay.open += 1;
                relay.opened += 1;
                response.on('close', () => (relay.open -= 1));
            }
            onward.on('error', () => response.destroy());
            response.on('close', () => onward.destroy());
            request.pipe(onward);
        });
        relay.listener.on('connection', (socket) => {
            relay.sockets.add(socket);
            socket.on('close', () => relay.sockets.delete(socket));
        });
        await new Promise((done) => relay.listener.listen(0, '127.0.0.1', done));
        relay.url = `http://127.0.0.1:${relay.listener.address().port}`;
        relay.key = server.key;
        return relay;
    }

    /** Breaks every connection, as a network does. */
    cut = () => this.sockets.forEach((socket) => socket.destroy());

    close() {
        this.cut();
        return new Promise((done) => this.listener.close(done));
    }
}
