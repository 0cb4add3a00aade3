// Uses the console in a browser and checks that it is readable. Arguments: the browser, a folder for pictures, a node without a cluster, a node of a cluster, and one with tokens, which are in the environment.
'use strict'
const assert = require('assert')
const http = require('http')
const {chromium} = require('playwright-core')
const [executablePath, shots, alone, member, guarded] = process.argv.slice(2)
const {TOKEN_ALL, TOKEN_SOME} = process.env
const patience = 120_000 // milliseconds, for what a page is to show: other programs may take the machine

const post = async (url, body, method = 'POST') => {
  const a = await fetch(url, {method, headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)})
  assert(a.ok, `${url}: ${a.status} ${await a.text()}`)
}

// postRaw is post for a path that fetch would change.
const postRaw = (at, path, body) => new Promise((resolve, reject) => {
  const {hostname, port} = new URL(at)
  const r = http.request({hostname, port, path, method: 'POST', headers: {'Content-Type': 'application/json'}}, a => { a.resume(); a.statusCode < 300 ? resolve() : reject(new Error(`${path}: ${a.statusCode}`)) })
  r.on('error', reject)
  r.end(JSON.stringify(body))
})

// fill makes sets and filters with many elements, with removed ones, and with odd names and elements.
async function fill(at) {
  const set = (key, bucket = 'default', type = 'sets') => `${at}/types/${type}/buckets/${bucket}/datatypes/${key}`
  const all = Array.from({length: 3000}, (_, i) => `user:${String(i).padStart(6, '0')}`)
  await post(set('visitors'), {add_all: all})
  await post(set('visitors'), {remove_all: all.slice(100, 900)})
  await post(set('%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E'), {add_all: ['<script>alert(1)</script>', '"&\'']})
  await post(set('bytes') + '?encoding=base64', {add_all: ['/wA=', '', '4oKs']})
  await post(set('a-name-that-is-so-long-that-it-fits-nowhere-'.repeat(6)), {add: 'x'.repeat(2000)})
  await post(set('%FF%00', 'b%2F', 'maps'), {add: 'x'})
  await post(set(''), {add: 'of the empty key'})
  for (const key of ['.', '..']) await postRaw(at, `/types/sets/buckets/default/datatypes/${key.replaceAll('.', '%2e')}`, {add: 'x'})
  for (let i = 0; i < 60; i++) await post(set(`set-${i}`), {add_all: ['a', 'b']})
  await post(`${at}/filters/seen`, {capacity: 1000000}, 'PUT')
  await post(`${at}/filters/sent`, {capacity: 20000}, 'PUT')
  await post(`${at}/filters/seen/add`, {keys: all})
  await post(`${at}/filters/seen/contains`, {keys: [...all.slice(0, 10), 'no']})
}

// to matches addresses that contain some texts; the page escapes each byte of a name.
const to = (...texts) => url => texts.every(x => unescape(url.href).includes(x))

// useTokens checks that without a token nothing is visible, with one what it permits, and nothing after the page is loaded again.
async function useTokens(browser) {
  const context = await browser.newContext({viewport: {width: 800, height: 700}})
  context.setDefaultTimeout(patience)
  const page = await context.newPage()
  const rows = n => page.waitForFunction(n => document.querySelectorAll('#sets tbody tr a').length === n, n)
  const enter = async secret => { await page.fill('#token', secret); await page.click('#login button') }
  await page.goto(guarded + '/console')
  await page.locator('#notice', {hasText: 'A token is needed'}).waitFor()
  await page.locator('#ready', {hasText: 'needs a token'}).waitFor()
  await page.screenshot({path: `${shots}/guarded-nothing.png`})
  await enter(TOKEN_SOME)
  await rows(2)
  await page.locator('#ready', {hasText: 'figures need an admin token'}).waitFor()
  await enter(TOKEN_ALL)
  await rows(3)
  await page.locator('#ready', {hasText: /^ready/}).waitFor()
  await page.reload()
  await page.locator('#notice', {hasText: 'A token is needed'}).waitFor()
  await context.close()
}

async function main() {
  const browser = await chromium.launch({executablePath, args: ['--no-sandbox']})
  for (const [name, at] of [['alone', alone], ['member', member]]) {
    await fill(at)
    for (const width of [400, 700, 1100, 1600]) {
      for (const colorScheme of ['light', 'dark']) {
        const context = await browser.newContext({viewport: {width, height: 900}, colorScheme, hasTouch: width === 400, isMobile: width === 400})
        context.setDefaultTimeout(patience)
        const page = await context.newPage()
        const faults = []
        page.on('console', m => { if (m.type() === 'error') faults.push(m.text()) })
        page.on('pageerror', e => faults.push(String(e)))
        page.on('request', r => { if (!r.url().startsWith(at + '/')) faults.push('asks ' + r.url()) })
        page.on('dialog', d => { faults.push('a script of the data ran'); d.dismiss() })
        const look = async view => {
          const [inner, wide] = await page.evaluate(() => [document.documentElement.clientWidth, document.documentElement.scrollWidth])
          assert(wide <= inner, `${name} ${view} at ${width} pixels is ${wide} wide`)
          assert(await page.evaluate(() => { const e = document.getElementById('elements'); return e.scrollWidth <= e.clientWidth }), `the elements at ${width} pixels are wider than their place`)
          const cut = await page.evaluate(() => [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.firstElementChild.id))
          if (width === 400) assert.deepEqual(cut, [], `${name} ${view} at ${width} pixels: columns are cut off`)
          await page.screenshot({path: `${shots}/${name}-${view}-${width}-${colorScheme}.png`, fullPage: true})
        }
        const go = view => page.evaluate(v => { location.hash = v }, view)
        const has = (selector, text) => page.locator(selector, {hasText: text}).first().waitFor()

        await page.goto(at + '/console')
        await has('#ready', /^ready/)
        await page.waitForFunction(() => document.querySelectorAll('#sets tbody tr').length === 50)
        await page.waitForFunction(() => [...document.querySelectorAll('#sets tbody tr')].every(r => r.cells[5].textContent || !r.querySelector('a')))
        assert(await page.isHidden('#notice'), 'a notice in the list of sets')
        await look('sets')
        await page.click('#more-sets')
        await page.waitForSelector('#more-sets', {state: 'hidden'})
        await has('#sets td', '<img src=x onerror=alert(1)>')
        await has('#sets td', '(empty key)')
        await has('#sets td', 'maps / b/ / 0xff00')
        await page.waitForFunction(() => document.querySelectorAll('#sets tbody tr').length === 68)
        assert(await page.isHidden('#notice'), 'a notice in the list of sets')
        for (const key of ['.', '..']) { // no browser can ask for them
          const cell = page.locator('#sets tbody td:first-child', {hasText: new RegExp(`^${key.replaceAll('.', '\\.')}$`)})
          await cell.waitFor()
          assert.equal(await cell.locator('a').count(), 0, `a link to ${key}`)
        }

        for (const [prefix, rows] of [['set-1', 11], ['nothing-', 1], ['', 50]]) {
          await page.fill('#search-sets [name=prefix]', prefix)
          await page.click('#search-sets button')
          await page.waitForFunction(n => document.querySelectorAll('#sets tbody tr').length === n, rows)
        }

        // A search that fails leaves the list, and what follows it, as it was. Figures that can't be read are an error.
        const refuse = r => r.fulfill({status: 503, contentType: 'application/json', body: '{"error":"unavailable","message":"not now"}'})
        await page.route(to('/sets?', 'prefix=zz'), refuse)
        await page.fill('#search-sets [name=prefix]', 'zz')
        await page.click('#search-sets button')
        await has('#notice', 'not now')
        await page.click('#more-sets')
        await page.waitForFunction(() => document.querySelectorAll('#sets tbody tr').length === 68)
        await page.waitForSelector('#notice', {state: 'hidden'})
        await page.route(to('/set-7/stats'), refuse)
        await page.fill('#search-sets [name=prefix]', 'set-7')
        await page.click('#search-sets button')
        await has('#notice', 'not now')

        await page.fill('#find-set [name=key]', 'visitors')
        await page.click('#find-set button')
        await has('#set-figures dd', '2,200')
        await has('#elements li', 'user:000000')
        await look('set')
        await page.fill('#search [name=prefix]', 'user:0000') // what is not searched for yet changes no page
        await page.check('#search [name=reverse]')
        await page.click('#more-elements')
        await has('#elements li', 'user:001300')
        await page.click('#more-elements')
        await has('#elements li', 'user:001800')
        await page.click('#fewer-elements')
        await has('#elements li', 'user:001300')
        await page.click('#fewer-elements')
        await has('#elements li', 'user:000000')
        await page.waitForSelector('#fewer-elements', {state: 'hidden'})
        await page.click('#search button')
        await page.waitForFunction(() => document.querySelector('#elements li').textContent === 'user:000099')
        await page.click('#count')
        await has('#counted', '100 elements')
        for (const [element, answer] of [['user:000001', 'Yes.'], ['user:000101', 'No.']]) {
          await page.fill('#ask [name=element]', element)
          await page.click('#ask button')
          await has('#answer', answer)
        }
        await page.fill('#search [name=prefix]', '')
        // Answers that come late, when another set is shown, are not shown.
        let release
        const held = new Promise(r => { release = r })
        for (const what of ['count', 'contains']) await page.route(to(`/visitors/${what}?`), async r => { await held; await r.continue() })
        await page.click('#count')
        await page.click('#ask button')
        for (const [key, element] of [['bytes', '0xff00'], ['<img src=x onerror=alert(1)>', '<script>alert(1)</script>'], ['', 'of the empty key']]) {
          await go('#sets')
          await page.fill('#find-set [name=key]', key)
          await page.click('#find-set button')
          await has('#elements li', element)
        }
        const came = Promise.all(['count', 'contains'].map(what => page.waitForResponse(r => to(`/visitors/${what}?`)(new URL(r.url()))).then(r => r.finished())))
        release()
        await came
        await page.evaluate(() => fetch('/ping').then(r => r.text()))
        for (const id of ['#counted', '#answer']) assert.equal(await page.textContent(id), '', `${id} is of another set`)
        await go('#sets')
        await page.fill('#find-set [name=key]', 'nowhere')
        await page.click('#find-set button')
        await has('#notice', 'not found')
        assert.equal(await page.locator('#set-figures dd').count(), 0, 'figures of another set')
        faults.splice(0, faults.length, ...faults.filter(f => !/404|503/.test(f)))

        if (width === 700) { // a node that does not answer is asked once at a time, and the page says so
          let asked = 0, most = 0
          const ended = r => { if (r.url().endsWith('/node')) asked-- }
          const hang = () => { most = Math.max(most, ++asked) }
          page.on('requestfailed', ended)
          await page.route(at + '/node', hang)
          await has('#ready', 'no answer')
          await page.unroute(at + '/node', hang)
          page.off('requestfailed', ended)
          await has('#ready', /^ready/)
          assert.equal(most, 1, 'requests for /node at once')
        }

        await go('#filters')
        await has('#filters td', 'seen')
        await look('filters')
        const short = r => r.continue({url: r.request().url() + '&limit=1'})
        await page.route('**/filters?*', short)
        await page.fill('#find-filters [name=prefix]', 'se')
        await page.click('#find-filters button')
        await page.waitForFunction(() => document.querySelectorAll('#filters tbody tr').length === 1)
        await page.fill('#find-filters [name=prefix]', 'z')
        await page.click('#more-filters')
        await has('#filters td', 'sent')
        await page.unroute('**/filters?*', short)

        await go('#node')
        await has('#latencies td', 'HTTP update')
        await has('#doors td', 'http')
        await page.waitForFunction(() => document.querySelectorAll('#charts figure').length === 4)
        if (name === 'member') await has('#members td', /^whole$/)
        else await has('#alone', 'alone')
        await look('node')

        // The token is only in the page.
        await page.fill('#token', 'not-a-token')
        const asked = page.waitForRequest(r => r.url().endsWith('/node') && r.headers().authorization === 'Bearer not-a-token')
        await page.click('#login button')
        await asked
        assert.deepEqual(await context.cookies(), [])
        assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length), 0)
        assert.equal(faults.join('\n'), '', `${name} at ${width} pixels, ${colorScheme}`)
        await context.close()
      }
    }
  }
  await useTokens(browser)
  await browser.close()
  console.log('console: passed')
}

main().catch(e => { console.error(e); process.exit(1) })
