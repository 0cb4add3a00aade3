// Tests that those of npm's bloomd client leave out: commands that they don't use, odd keys, several clients at a time, and
// that a clean stop loses nothing. The first argument is the package's folder; `bloomd` in the PATH is the server.
'use strict'
const assert = require('assert')
const {spawn} = require('child_process')
const {once} = require('events')
const bloom = require(process.argv[2])

let clients = []

// connect returns a client whose methods return promises.
function connect() {
  const c = bloom.createClient({reconnectDelay: 20})
  clients.push(c)
  return new Proxy(c, {get: (_, name) => (...args) =>
    new Promise((ok, no) => c[name](...args, (err, data) => err ? no(err) : ok(data)))})
}

async function withServer(f) {
  const server = spawn('bloomd', {stdio: 'inherit'})
  const ended = once(server, 'exit')
  try {
    await f(connect())
  } finally {
    clients.forEach(c => c.dispose())
    clients = []
    server.kill()
  }
  assert.deepStrictEqual(await ended, [0, null], 'exit status after SIGTERM')
}

const fails = (promise, message) => assert.rejects(promise, e => e.message === message, message)
const oddKeys = ['with space', ' leading', 'trailing ', 'tab\tinside', 'grün €', 'x'.repeat(100000)]

async function commands(c) {
  assert.strictEqual(await c.create('own_one', {capacity: 20000, prob: 0.001}), true)
  // A cluster refuses filters in memory only.
  assert.strictEqual(await c.create('own_two', process.env.CLUSTER ? {} : {in_memory: 1}), true)
  for (const key of oddKeys) {
    assert.strictEqual(await c.check('own_one', key), false, 'before set: ' + key.slice(0, 20))
    assert.strictEqual(await c.set('own_one', key), true)
    assert.strictEqual(await c.set('own_one', key), false)
    assert.strictEqual(await c.check('own_one', key), true)
  }
  const info = await c.info('own_one')
  assert.deepStrictEqual([info.capacity, info.size, info.sets, info.setHits, info.setMisses, info.checks, info.checkHits],
    ['20000', '6', '12', '6', '6', '12', '6'])
  assert.deepStrictEqual((await c.list('own_')).map(f => f.name).sort(), ['own_one', 'own_two'])
  assert.deepStrictEqual((await c.list('own_t')).map(f => f.name), ['own_two'])
  assert.strictEqual(await c.flush('own_one'), true)
  await fails(c.clear('own_one'), 'Filter is not proxied. Close it first.')
  assert.strictEqual(await c.close('own_one'), true)
  assert.strictEqual((await c.info('own_one')).inMemory, '0')
  assert.strictEqual(await c.check('own_one', oddKeys[0]), true)
  const again = await c.info('own_one')
  assert.deepStrictEqual([again.inMemory, again.pageIns, again.pageOuts], ['1', '1', '1'])
  await fails(c.check('none', 'key'), 'Filter does not exist')
  await fails(c.create('bad name', {}), 'Client Error: Bad arguments')
}

// Each client sends all its commands at once; one answer too many or too few would shift all later ones.
async function manyClients() {
  await Promise.all(Array.from({length: 16}, async (_, i) => {
    const c = connect(), keys = Array.from({length: 500}, (_, k) => `client ${i} key ${k}`)
    const sets = keys.map(key => c.set('own_one', key)), checks = keys.map(key => c.check('own_one', key))
    assert.deepStrictEqual(await Promise.all(checks), keys.map(() => true))
    assert.ok((await Promise.all(sets)).filter(Boolean).length >= 490, 'new keys taken for present')
  }))
}

async function afterRestart(c) {
  const info = await c.info('own_one')
  assert.strictEqual(info.inMemory, '0')
  assert.ok(info.size > 7900 && info.size <= 8006, 'size ' + info.size)
  for (let i = 0; i < 16; i++) {
    assert.strictEqual(await c.check('own_one', `client ${i} key ${i}`), true)
  }
  assert.strictEqual(await c.drop('own_one'), true)
  await fails(c.check('own_one', 'key'), 'Filter does not exist')
  await c.drop('own_two')
  assert.deepStrictEqual(await c.list('own_'), [])
}

async function main() {
  await withServer(async c => { await commands(c); await manyClients() })
  await withServer(afterRestart)
  console.log('OK: commands, odd keys, 16 clients at a time, restart')
}

main().catch(err => { console.error(err); process.exit(1) })
