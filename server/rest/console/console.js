// The console of a node. It asks the API of the same address; what it shows is what the token in the page may see. The token is kept in this variable only.
'use strict'
let token = ''

const $ = id => document.getElementById(id)
const encoder = new TextEncoder()

// h makes an element; children are elements or text, never HTML.
function h(tag, attributes = {}, ...children) {
  const e = document.createElement(tag)
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v)
  e.append(...children)
  return e
}

function svg(tag, attributes = {}, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag)
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v)
  e.append(...children)
  return e
}

class Refused extends Error {
  constructor(status, answer) { super(answer.message || `HTTP ${status}`); this.status = status; this.code = answer.error }
}

async function ask(path, signal) {
  if (dotted(path)) throw new Error('A browser can’t ask for a type, bucket or key that is “.” or “..”. Use redis-cli or bigset set.')
  const answer = await fetch(path, {signal, headers: token ? {Authorization: 'Bearer ' + token} : {}, cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer'})
  const body = await answer.json().catch(() => ({}))
  if (!answer.ok) throw new Refused(answer.status, body)
  return body
}

// notice shows what went wrong, or nothing.
function notice(e) {
  $('notice').hidden = !e
  $('notice').textContent = !e ? '' : e.status === 401 ? 'A token is needed: ' + e.message : e.message
}

// run does what a user asked for and shows what goes wrong. A later run of the same kind takes the place of an earlier one.
const runs = {}
async function run(kind, f) {
  const mine = runs[kind] = Symbol()
  try {
    await f(() => runs[kind] === mine)
    if (runs[kind] === mine) notice()
  } catch (e) {
    if (runs[kind] === mine) notice(e)
  }
}

const number = n => n === undefined ? '' : Math.round(n).toLocaleString('en')
function bytes(n) {
  if (n === undefined) return ''
  let unit = 0
  for (; n >= 1024 && unit < 5; unit++) n /= 1024
  return `${n < 100 && unit ? n.toFixed(1) : Math.round(n)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][unit]}`
}
function seconds(s) {
  if (s === undefined || Number.isNaN(s)) return ''
  if (s === Infinity) return 'more'
  if (s >= 120) return s < 7200 ? `${Math.round(s / 60)} min` : s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`
  return s < 1e-3 ? `${(s * 1e6).toFixed(0)} µs` : s < 1 ? `${(s * 1e3).toFixed(s < 0.01 ? 1 : 0)} ms` : `${s.toFixed(1)} s`
}

// Bytes that are text are shown as text, all others as hexadecimal digits.
const fromBase64 = text => Uint8Array.from(atob(text), c => c.charCodeAt(0))
function shown(b) {
  try {
    return {text: new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(b), bytes: false}
  } catch {
    return {text: '0x' + Array.from(b, x => x.toString(16).padStart(2, '0')).join(''), bytes: true}
  }
}
const percent = b => Array.from(b, x => '%' + x.toString(16).padStart(2, '0')).join('')
const part = (o, name) => o[name + '_base64'] === undefined ? encoder.encode(o[name] ?? '') : fromBase64(o[name + '_base64'])

// A set is known in the page's address by its path.
const pathOf = (type, bucket, key) => `/types/${percent(type)}/buckets/${percent(bucket)}/datatypes/${percent(key)}`
const dotted = path => /\/(%2e){1,2}([/?]|$)/i.test(path) // browsers take such a part, even escaped, for a step in the path
const hashOf = path => '#set' + path
const setHash = /^#set\/types\/(%[0-9A-Fa-f]{2})*\/buckets\/(%[0-9A-Fa-f]{2})*\/datatypes\/(%[0-9A-Fa-f]{2})*$/ // no other: the token would go to whatever address it names
const bytesOfPercent = text => Uint8Array.from((text.match(/%../g) || []).map(x => parseInt(x.slice(1), 16)))
function nameOf(type, bucket, key) {
  const [t, b, k] = [type, bucket, key].map(x => shown(x).text)
  return t === 'sets' && b === 'default' ? k || '(empty key)' : `${t} / ${b} / ${k}`
}

const figures = (list, rows) => list.replaceChildren(...rows.map(([what, value]) => h('div', {}, h('dt', {}, what), h('dd', {}, String(value)))))
const cells = (...values) => values.map((v, i) => h('td', i && typeof v === 'string' ? {class: 'n'} : {}, v))

// Sets.
const setsPage = 50
let setsAfter = ''
let setsPrefix = '', setsAll = false // of the list that is shown
function listSets(more) {
  return run('view', async current => {
    const prefix = more ? setsPrefix : percent(encoder.encode(new FormData($('search-sets')).get('prefix')))
    const all = more ? setsAll : $('all-sets').checked
    let page, after = more ? setsAfter : ''
    do { // a page may have none and still not be the last
      page = await ask(`/sets?limit=${setsPage}&all=${all}&prefix=${prefix}&after=${after}`)
      if (!current()) return
      after = page.after || ''
    } while (!page.sets.length && after)
    setsPrefix = prefix
    setsAll = all
    setsAfter = after
    $('more-sets').hidden = !setsAfter
    const body = $('sets').tBodies[0]
    if (!more) body.replaceChildren()
    const waiting = []
    for (const s of page.sets) {
      const name = s.type === undefined && s.type_base64 === undefined ? null : ['type', 'bucket', 'key'].map(x => part(s, x))
      const row = h('tr', {}, ...cells(name && !dotted(pathOf(...name)) ? h('a', {href: hashOf(pathOf(...name))}, nameOf(...name)) : name ? nameOf(...name) : shown(part(s, 'name')).text, number(s.live), number(s.seen), '', '', '', ''))
      body.append(row)
      if (name && !dotted(pathOf(...name))) waiting.push([row, pathOf(...name)])
    }
    if (!body.rows.length) body.append(h('tr', {}, h('td', {colspan: 7}, prefix ? 'No set that you may see has a key with this prefix.' : 'There are no sets that you may see.')))
    let failed
    await Promise.all([1, 2, 3, 4].map(async () => {
      for (let next; current() && (next = waiting.shift());) {
        const [row, path] = next
        const st = await ask(path + '/stats').catch(e => { failed ||= e })
        if (st) [st.dead, st.actors].forEach((v, i) => { row.cells[3 + i].textContent = number(v) })
        if (st) [st.clock_bytes, st.tombstone_bytes].forEach((v, i) => { row.cells[5 + i].textContent = bytes(v) })
      }
    }))
    if (failed) throw failed
  })
}

// One set.
let open = '', range = [], pages = [] // the range of the elements that are shown, and where its pages begin that were shown, and the next one
function openSet(path) {
  open = path
  const name = path.split('/').filter((_, i) => [2, 4, 6].includes(i)).map(bytesOfPercent)
  $('set-name').textContent = nameOf(...name)
  for (const id of ['counted', 'answer']) $(id).textContent = ''
  for (const id of ['set-figures', 'elements']) $(id).replaceChildren()
  runs.count = runs.ask = null // their answers are of another set
  for (const id of ['more-elements', 'fewer-elements']) $(id).hidden = true
  return run('view', async current => {
    const st = await ask(path + '/stats?here=true')
    if (!current()) return
    const here = st.here || {}
    figures($('set-figures'), [
      ['Elements', number(st.live)], ['Events', number(st.seen)], ['Removed or replaced', number(st.dead)], ['Actors', number(st.actors)], ['Gaps in the clock', number(st.gaps)],
      ['Clock', bytes(st.clock_bytes)], ['Tombstone', bytes(st.tombstone_bytes)],
      ...st.here ? [['Keys in tables here', number(here.keys)], ['Dead of them, at least', number(here.keys_dead)], ['Bytes in tables', bytes(here.table_bytes)],
        ['Keys by level', (here.keys_by_level || []).map(number).join(' · ') || 'none'], ['Memory', bytes(here.heap_bytes)]] : [],
    ])
    await listElements(0, current)
  })
}

function rangeOf() {
  const f = new FormData($('search')), q = []
  for (const name of ['prefix', 'from', 'to']) if (f.get(name)) q.push(`${name}=${percent(encoder.encode(f.get(name)))}`)
  return q
}

// listElements shows the page of elements that is step pages after the current one, or the first one if step is 0.
async function listElements(step, current) {
  const before = step > 0 ? pages : step < 0 ? pages.slice(0, -2) : ['']
  const q = step ? range : [...rangeOf(), 'encoding=base64', 'limit=500', 'reverse=' + $('search').reverse.checked]
  const page = await ask(open + '/elements?' + [...q, 'after=' + before.at(-1)].join('&'))
  if (!current()) return
  range = q
  pages = [...before, page.after || '']
  $('more-elements').hidden = !page.after
  $('fewer-elements').hidden = pages.length < 3
  $('elements').replaceChildren(...page.value.map(e => {
    const s = shown(fromBase64(e))
    return h('li', s.bytes ? {class: 'bytes'} : {}, s.text === '' ? '(empty)' : s.text)
  }))
  $('counted').textContent = page.value.length ? '' : 'No element is in that range.'
}

// Filters.
let filtersAfter = ''
let filtersPrefix = '' // of the list that is shown
function listFilters(more) {
  return run('view', async current => {
    const prefix = more ? filtersPrefix : percent(encoder.encode(new FormData($('find-filters')).get('prefix')))
    const page = await ask(`/filters?prefix=${prefix}&after=${more ? filtersAfter : ''}`)
    if (!current()) return
    filtersPrefix = prefix
    filtersAfter = page.after || ''
    $('more-filters').hidden = !filtersAfter
    const body = $('filters').tBodies[0]
    if (!more) body.replaceChildren()
    body.append(...page.filters.map(f => h('tr', {}, ...cells(shown(part(f, 'name')).text, number(f.size), number(f.capacity), bytes(f.storage_bytes), String(f.probability),
      number(f.check_hits + f.check_misses), number(f.check_hits), number(f.set_hits + f.set_misses)), h('td', {}, f.in_memory ? 'in memory only' : 'on disk'), h('td', {}, f.loaded ? 'yes' : 'no'))))
    if (!body.rows.length) body.append(h('tr', {}, h('td', {colspan: 10}, 'There are no filters that you may see.')))
  })
}

// The node.
const history = {}
const historyMost = 120
let before = null

// quantile returns below what a share of what was counted lies; bounds has the upper bounds of the buckets but for the last.
function quantile(buckets, bounds, share) {
  const all = buckets.reduce((a, b) => a + b, 0)
  let n = 0
  for (let i = 0; i < buckets.length; i++) {
    n += buckets[i]
    if (all && n >= share * all) return i < bounds.length ? bounds[i] : Infinity
  }
  return NaN
}

function chart(what, unit, value) {
  const list = history[what] ||= []
  list.push(value)
  if (list.length > historyMost) list.shift()
  const most = Math.max(...list, 1e-9)
  const points = list.map((v, i) => `${(i + historyMost - list.length) * 100 / (historyMost - 1)},${44 - 42 * v / most}`).join(' ')
  return h('figure', {}, h('figcaption', {}, h('span', {}, what), h('span', {}, unit(value) + '/s')),
    svg('svg', {viewBox: '0 0 100 46', preserveAspectRatio: 'none', role: 'img', 'aria-label': `${what}: ${unit(value)} a second`}, svg('polyline', {class: 'line', points})))
}

function showNode(n) {
  const plain = {}, labelled = {}
  for (const f of n.figures) {
    if (f.label) (labelled[f.name] ||= {})[f.of] = f.value
    else plain[f.name] = f.value
  }
  const strategy = Object.keys(labelled.strategy || {}).join()
  $('reasons').replaceChildren(...[...n.reasons || [], ...n.warnings || []].map(r => h('li', {}, r)))
  figures($('space'), [
    ['On disk', bytes(plain.bytes_on_disk)], ['Tables', bytes(plain.bytes_tables)], ['Memtables', bytes(plain.bytes_memtables)], ['Disk free', bytes(plain.disk_free_bytes)],
    ['Heap', bytes(plain.bytes_heap)], ['Clocks in memory', bytes(plain.bytes_sets)], ['Filters in memory', bytes(plain.bytes_filters)], ['Up', seconds(n.seconds)],
  ])
  figures($('garbage'), [
    ['Strategy', strategy], ['Keys in tables', number(plain.keys_in_tables)], ['Live dots in memory', number(plain.dots_live)], ['Tombstones in memory', bytes(plain.bytes_tombstones)],
    ['Deletes in tables', number(plain.deletes_in_tables)], ['To be freed by them', bytes(plain.bytes_deleted)], ['Dead keys left out', number(plain.rewrite_dropped + plain.filtered)],
    ['Debt of compactions', bytes(plain.compaction_debt)],
    ['At work', `${plain.compactions_in_progress} compactions, ${plain.rewrites_in_progress} rewrites, ${plain.flushes_in_progress} flushes`],
    ['Stalls', `${number(plain.stalls)}, ${seconds(plain.stall_milliseconds / 1000)}`],
  ])
  const now = performance.now() / 1000
  if (before) {
    const rate = name => Math.max(0, (plain[name] - before.plain[name]) / (now - before.now))
    $('charts').replaceChildren(chart('Keys added', number, rate('keys_added')), chart('Log', bytes, rate('bytes_wal')), chart('Compactions', bytes, rate('bytes_compact')), chart('Rewrites', bytes, rate('bytes_rewrite')))
  }
  before = {plain, now}
  const levels = Object.entries(labelled.level_bytes || {})
  const largest = Math.max(1, ...levels.map(([, b]) => b))
  $('levels').tBodies[0].replaceChildren(...levels.map(([level, b]) => h('tr', {}, ...cells('L' + level, number(labelled.level_tables[level]), bytes(b)),
    h('td', {class: 'bar'}, svg('svg', {viewBox: '0 0 100 8', preserveAspectRatio: 'none'}, svg('rect', {class: 'fill', width: 100 * b / largest, height: 8}))))))
  showLatencies(n, plain, labelled)
  const doors = labelled.door_connections || {}
  $('doors').tBodies[0].replaceChildren(...Object.keys(doors).map(d => h('tr', {}, ...cells(d, number(doors[d]), number(labelled.door_connections_accepted[d]), number(labelled.door_connections_refused[d]),
    bytes(labelled.door_bytes_received[d]), bytes(labelled.door_bytes_sent[d])))))
  showMembers(n.cluster)
}

function showLatencies(n, plain, labelled) {
  const rows = []
  for (const [name, l] of Object.entries(n.requests)) {
    if (l.count) rows.push(['HTTP ' + name.replaceAll('_', ' '), l.count, l.seconds, l.buckets, l.buckets.slice(1).map((_, i) => 64e-6 * 2 ** i)])
  }
  for (const [what, name] of [['Redis: questions', 'resp_question_seconds'], ['Redis: adds and removes', 'resp_change_seconds'], ['Redis: other requests', 'resp_other_seconds'],
    ['Riak: fetches', 'riak_fetch_seconds'], ['Riak: changes', 'riak_change_seconds'], ['Sync of the log', 'sync_seconds'], ['Wait for earlier writes', 'queue_seconds'], ['Writers held by a swap', 'held_seconds']]) {
    const sums = Object.entries(labelled[name + '_bucket'] || {}).map(([le, v]) => [le === '+Inf' ? Infinity : Number(le), v]).sort((a, b) => a[0] - b[0])
    if (plain[name + '_count']) rows.push([what, plain[name + '_count'], plain[name + '_sum'], sums.map(([, v], i) => v - (i ? sums[i - 1][1] : 0)), sums.map(([le]) => le)])
  }
  $('latencies').tBodies[0].replaceChildren(...rows.map(([what, count, sum, buckets, bounds]) =>
    h('tr', {}, ...cells(what, number(count), seconds(sum / count), seconds(quantile(buckets, bounds, 0.5)), seconds(quantile(buckets, bounds, 0.99))))))
}

function showMembers(cluster) {
  $('alone').hidden = !!cluster
  $('members').parentNode.hidden = !cluster
  if (!cluster) return
  $('members').tBodies[0].replaceChildren(...cluster.members.map(m => {
    const state = m.store_failed ? 'store failed' : !m.up ? m.why || 'away' : m.waits ? 'waits for ' + m.waits : m.sets && m.filters ? 'whole' : 'is being filled'
    const row = h('tr', {}, ...cells(m.id + (m.id === cluster.node ? ' (this node)' : ''), h('span', {}, m.address), h('span', {class: state === 'whole' ? 'good' : 'bad'}, state), number(m.epoch), number(m.hints), bytes(m.hint_bytes),
      number(m.calls), number(m.failed), m.milliseconds ? seconds(m.milliseconds / 1000) : ''))
    return row
  }))
}

// poll asks for the node again and again, while the page is visible: once at a time, since a browser has few connections for all requests of a page.
const pollTime = 10_000 // milliseconds
let polling = false
async function poll() {
  if (document.hidden || polling) return
  polling = true
  const badge = $('ready')
  const say = (text, kind) => { badge.textContent = text; badge.className = 'badge ' + kind }
  try {
    const n = await ask('/node', AbortSignal.timeout(pollTime))
    $('node-name').textContent = n.cluster ? `${n.cluster.cluster} / ${n.node}` : n.node || ''
    $('version').textContent = `version ${n.version || 'unknown'}`
    say(n.ready ? (n.warnings ? 'ready, with warnings' : 'ready') : 'not ready', n.ready ? 'good' : 'bad')
    showNode(n)
    if (view === 'node') notice()
  } catch (e) {
    if (e.status === 401 || e.status === 403) {
      say(e.status === 401 ? 'needs a token' : 'figures need an admin token', '')
      if (view === 'node') notice(e)
    } else {
      say('no answer', 'bad')
    }
  } finally {
    polling = false
  }
}

// Views, by what the page's address says.
let view = ''
function show() {
  const hash = location.hash || '#sets'
  view = setHash.test(hash) ? 'set' : ['#sets', '#filters', '#node'].includes(hash) ? hash.slice(1) : 'sets'
  for (const v of ['sets', 'set', 'filters', 'node']) $('view-' + v).hidden = v !== view
  for (const a of document.querySelectorAll('nav a')) {
    if (a.getAttribute('href') === '#' + (view === 'set' ? 'sets' : view)) a.setAttribute('aria-current', 'page')
    else a.removeAttribute('aria-current')
  }
  notice()
  switch (view) {
  case 'sets': return listSets(false)
  case 'set': return openSet(hash.slice(4))
  case 'filters': return listFilters(false)
  default: return poll()
  }
}

function on(id, event, f) {
  $(id).addEventListener(event, e => { e.preventDefault(); f(e) })
}

on('login', 'submit', () => { token = $('token').value.trim(); show(); poll() })
on('more-sets', 'click', () => listSets(true))
$('all-sets').addEventListener('change', () => listSets(false))
on('find-set', 'submit', () => {
  const f = new FormData($('find-set'))
  location.hash = hashOf(pathOf(...['type', 'bucket', 'key'].map(x => encoder.encode(f.get(x)))))
})
on('search-sets', 'submit', () => listSets(false))
on('search', 'submit', () => run('view', current => listElements(0, current)))
on('more-elements', 'click', () => run('view', current => listElements(1, current)))
on('fewer-elements', 'click', () => run('view', current => listElements(-1, current)))
on('count', 'click', () => run('count', async current => {
  const c = await ask(open + '/count?' + rangeOf().join('&'))
  if (current()) $('counted').textContent = `${number(c.count)} elements are in that range.`
}))
on('ask', 'submit', () => run('ask', async current => {
  const e = new FormData($('ask')).get('element')
  const a = await ask(open + '/contains?element=' + percent(encoder.encode(e)))
  if (current()) $('answer').textContent = a.present[0] ? 'Yes.' : 'No.'
}))
on('find-filters', 'submit', () => listFilters(false))
on('more-filters', 'click', () => listFilters(true))

// label gives each cell the name of its column, which a narrow page shows beside it.
function label(table) {
  const names = Array.from(table.tHead.rows[0].cells, c => c.textContent)
  for (const row of table.tBodies[0].rows) Array.from(row.cells).forEach((c, i) => { c.dataset.label = names[i] })
}
for (const table of document.querySelectorAll('table')) new MutationObserver(() => label(table)).observe(table.tBodies[0], {childList: true})

addEventListener('hashchange', show)
show()
poll()
setInterval(poll, 3000)
document.addEventListener('visibilitychange', poll)
