// The set calls of Riak's official client. The first argument is the package's folder, the second says what serves the ports that follow: guarded (by TLS and an access token, which
// are in the environment: CA, a file, and TOKEN), alone, cluster, or killed (a cluster without its third node).
'use strict'
const assert = require('assert')
const fs = require('fs')
const Riak = require(process.argv[2])
const [kind, ...ports] = process.argv.slice(3)

// user is the user with an access token, or nothing.
const user = token => process.env.CA && {auth: {user: 'app', password: token, ca: fs.readFileSync(process.env.CA, 'utf8')}}

// connect returns a client of one node whose commands return promises.
function connect(port, as = user(process.env.TOKEN)) {
  const node = new Riak.Node({remoteAddress: '127.0.0.1', remotePort: +port, requestTimeout: 20000, ...as})
  const cluster = new Riak.Cluster({nodes: [node], executionAttempts: 1})
  return new Promise((ok, no) => {
    const c = new Riak.Client(cluster, err => err ? no(err) : ok({
      run: (builder, options) => new Promise((ok, no) => {
        for (const [method, value] of Object.entries(options)) builder['with' + method](value)
        c.execute(builder.withCallback((err, answer) => err ? no(new Error(err.msg || err)) : ok(answer)).build())
      }),
      ping: () => new Promise((ok, no) => c.ping((err, up) => err ? no(err) : ok(up))),
      stop: () => new Promise(ok => c.stop(ok)),
    }))
  })
}

const name = key => ({BucketType: 'sets', Bucket: 'people', Key: key})
const fetch = (c, key, options) => c.run(new Riak.Commands.CRDT.FetchSet.Builder(), {...name(key), ...options})
const update = (c, key, options) => c.run(new Riak.Commands.CRDT.UpdateSet.Builder(), {ReturnBody: false, ...name(key), ...options})
const remove = (c, key) => c.run(new Riak.Commands.KV.DeleteValue.Builder(), name(key))
const sorted = list => list.slice().sort()

// ready waits until a node serves.
async function ready(port) {
  for (let tries = 0; ; tries++) {
    const c = await connect(port)
    try {
      await update(c, 'ready', {Additions: [String(port)]})
      return c
    } catch (err) {
      await c.stop()
      if (tries === 200) throw err
      await new Promise(ok => setTimeout(ok, 50))
    }
  }
}

async function conversation(c, key, other) {
  assert.strictEqual(await c.ping(), true)
  const absent = await fetch(c, key)
  assert.deepStrictEqual([absent.notFound, absent.values], [true, []])
  await update(c, key, {Additions: ['paul', 'ringo', Buffer.from([0, 255])]})
  const first = await fetch(other, key, {SetsAsBuffers: true})
  assert.deepStrictEqual(first.values.map(v => v.toString('hex')).sort(), ['00ff', '7061756c', '72696e676f'])
  assert.ok(first.context.length > 0)
  await update(other, key, {Additions: ['paul']}) // after the look
  const after = await update(c, key, {Removals: ['paul', 'ringo', Buffer.from([0, 255])], Context: first.context, ReturnBody: true})
  assert.deepStrictEqual(after.values, ['paul'], 'a remove by an older look leaves what came since')
  const made = await c.run(new Riak.Commands.CRDT.UpdateSet.Builder(), {BucketType: 'sets', Bucket: 'people', Additions: ['x'], ReturnBody: true})
  assert.ok(made.generatedKey.length > 0)
  assert.deepStrictEqual((await fetch(other, made.generatedKey)).values, ['x'])
  const many = Array.from({length: 5000}, (_, i) => 'element ' + i)
  await update(c, key, {Additions: many})
  assert.deepStrictEqual(sorted((await fetch(other, key)).values), sorted([...many, 'paul']))
  await remove(other, key)
  assert.deepStrictEqual((await fetch(c, key)).values, [])
  await assert.rejects(update(c, key, {Additions: ['x'], Context: Buffer.from('nonsense')}), /token/)
  await assert.rejects(c.run(new Riak.Commands.CRDT.UpdateCounter.Builder(), {BucketType: 'sets', Bucket: 'people', Key: key, Increment: 1}), /counter.*set/)
  await assert.rejects(c.run(new Riak.Commands.KV.FetchValue.Builder(), {BucketType: 'sets', Bucket: 'people', Key: key}), /not served/)
}

// refused wants a node that asks for a token to do nothing for clients without one.
async function refused(port) {
  const stranger = await connect(port, {})
  await assert.rejects(update(stranger, 'ready', {Additions: ['stranger']}), /token/)
  await stranger.stop()
  await assert.rejects(connect(port, user('wrong')), /Authentication failed/)
  const c = await connect(port)
  assert.deepStrictEqual((await fetch(c, 'ready')).values, [String(port)])
  await c.stop()
}

async function main() {
  const clients = []
  for (const port of ports) clients.push(await ready(port))
  for (let i = 0; i < clients.length; i++) {
    await conversation(clients[i], kind + ' ' + i, clients[(i + 1) % clients.length])
    console.log(`riak-client: ${kind}, node ${i + 1} of ${clients.length}: passed`)
  }
  for (const c of clients) await c.stop()
  if (kind === 'guarded') await refused(ports[0])
}

main().then(() => process.exit(0)).catch(err => {
  console.error(err)
  process.exit(1)
})
