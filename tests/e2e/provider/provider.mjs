// A certified OpenID Connect provider on loopback, for the end-to-end tests: it signs anybody in as whom the test says, and signs
// tokens of any content. It ends with its standard input.
//
// usage: node provider.mjs [PORT]
import { createServer } from 'node:http';
import { calculateJwkThumbprint, exportJWK, exportSPKI, generateKeyPair, SignJWT } from 'jose';
import { Provider } from 'oidc-provider';

const CLIENT = { id: 'windlass', secret: 'the-secret-of-the-client-in-the-tests' };
let accounts = {};
let redirects = ['http://127.0.0.1:1/api/v1/auth/oidc/callback'];
// Whether groups are told by the userinfo endpoint alone, as the standard has it.
let thin = false;
// What is changed in the next id token.
let next = null;
let current = await makeKey();
const stranger = await makeKey();
let issuer;
let provider;

async function makeKey() {
    const pair = await generateKeyPair('RS256', { extractable: true });
    const jwk = { ...(await exportJWK(pair.privateKey)), use: 'sig', alg: 'RS256' };
    return { ...pair, jwk: { ...jwk, kid: await calculateJwkThumbprint(jwk) } };
}

function build() {
    provider = new Provider(issuer, {
        clients: [{ client_id: CLIENT.id, client_secret: CLIENT.secret, redirect_uris: redirects }],
        jwks: { keys: [current.jwk] },
        cookies: { keys: ['a key of the tests'] },
        scopes: ['openid', 'profile', 'email', 'groups'],
        claims: { openid: ['sub'], profile: ['name'], email: ['email', 'email_verified'], groups: ['groups'] },
        conformIdTokenClaims: thin,
        features: { devInteractions: { enabled: false } },
        interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
        findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...accounts[id] }) }),
        // Nobody is asked for consent.
        async loadExistingGrant(ctx) {
            const grant = new provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
            grant.addOIDCScope('openid profile email groups');
            await grant.save();
            return grant;
        },
    });
    provider.use(async (ctx, rest) => {
        await rest();
        if (ctx.oidc?.route !== 'token' || !ctx.body?.id_token || !next) return;
        const claims = JSON.parse(Buffer.from(ctx.body.id_token.split('.')[1], 'base64url'));
        const { claims: changes, ...how } = next;
        next = null;
        ctx.body.id_token = await sign({ ...claims, ...changes }, how);
    });
}

// A token with these claims, signed in a way that need not be right.
async function sign(claims, { by = 'current', header = {} } = {}) {
    if (by === 'none') {
        const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
        return `${part({ alg: 'none', typ: 'JWT', ...header })}.${part(claims)}.`;
    }
    if (by === 'hmac') {
        const secret = new TextEncoder().encode(await exportSPKI(current.publicKey));
        return new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: current.jwk.kid, ...header }).sign(secret);
    }
    const key = by === 'stranger' ? stranger : current;
    // A stranger claims to be the provider.
    const kid = by === 'stranger' ? current.jwk.kid : key.jwk.kid;
    return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid, ...header }).sign(key.privateKey);
}

async function control(path, body) {
    switch (path) {
        case '/test/setup':
            accounts = body.accounts ?? accounts;
            redirects = body.redirects ?? redirects;
            thin = body.thin ?? thin;
            build();
            return '';
        case '/test/rotate':
            current = await makeKey();
            build();
            return '';
        case '/test/next':
            next = body;
            return '';
        case '/test/token':
            return sign({ iss: issuer, ...body.claims }, body);
        default:
            throw new Error(`there is no ${path}`);
    }
}

async function read(request) {
    const parts = [];
    for await (const part of request) parts.push(part);
    return JSON.parse(Buffer.concat(parts).toString() || '{}');
}

const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    try {
        if (pathname.startsWith('/test/')) {
            response.end(JSON.stringify({ text: await control(pathname, await read(request)) }));
        } else if (pathname.startsWith('/interaction/')) {
            const accountId = request.headers['x-account'];
            const result = accountId ? { login: { accountId } } : { error: 'access_denied', error_description: 'nobody signed in' };
            await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
        } else {
            await provider.callback()(request, response);
        }
    } catch (error) {
        console.error(error);
        response.statusCode = 500;
        response.end(JSON.stringify({ error: String(error) }));
    }
});

server.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => {
    issuer = `http://127.0.0.1:${server.address().port}`;
    build();
    console.log(issuer);
});
process.stdin.on('end', () => process.exit()).resume();
