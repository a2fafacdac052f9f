// Two real OpenID providers: one where clients register themselves, and one that knows a single client.
// Access tokens are JWTs, and opaque ones for a resource whose path ends with /opaque.
//
//     node provider.mjs PACKAGE KEYS [PORT PORT]     prints the two ports once it serves
//
// KEYS is a JSON file of private JWKs, the first of which signs. It is read again at POST /rotate.
import http from 'node:http';
import fs from 'node:fs';

const [pkg, keysFile, ...ports] = process.argv.slice(2);
const { Provider } = await import(`${pkg}/lib/index.js`);

const configuration = (registers) => ({
  jwks: { keys: JSON.parse(fs.readFileSync(keysFile)) },
  clients: [{
    client_id: 'the-server', client_secret: 'the-secret-of-the-server',
    redirect_uris: [process.env.REDIRECT_URI], grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  }],
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  features: {
    registration: { enabled: registers },
    devInteractions: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource) => ({
        scope: 'tools:read tools:write', audience: resource, accessTokenTTL: 600,
        accessTokenFormat: resource.endsWith('/opaque') ? 'opaque' : 'jwt', jwt: { sign: { alg: 'ES256' } },
      }),
    },
  },
  scopes: ['openid', 'offline_access', 'tools:read', 'tools:write'],
  claims: { openid: ['sub'], groups: ['groups'] },
  extraTokenClaims: (ctx, token) => ({ groups: token.accountId === 'ann' ? ['interns'] : [] }),
  findAccount: (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
});

async function serve(registers, port) {
  let handle;
  const server = http.createServer((request, response) => {
    if (request.method === 'POST' && request.url === '/rotate') { start(); response.end(); } else handle(request, response);
  });
  const start = () => {
    const provider = new Provider(`http://127.0.0.1:${server.address().port}`, configuration(registers));
    for (const event of ['server_error', 'authorization.error', 'registration_create.error', 'grant.error'])
      provider.on(event, (ctx, error) => console.error(event, error.error, error.error_description ?? error));
    handle = provider.callback();
  };
  await new Promise((done) => server.listen(Number(port ?? 0), '127.0.0.1', done));
  start();
  return server.address().port;
}

console.log([await serve(true, ports[0]), await serve(false, ports[1])].join(' '));
