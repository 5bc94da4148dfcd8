// Hostile input on every page: whatever an agent writes stays text, whatever it delivers stays bytes, and no other page can frame or script this one.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, afterEach, before, describe, test } from 'node:test'
import type { Page } from 'playwright-core'
import { createClient } from '#sdk/index.ts'
import { limits } from '#kernel/limits.ts'
import { until } from '../support/browser/acts.ts'
import { shoot } from '../support/browser/shots.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'

let stage: Stage
before(async () => {
  stage = await openStage()
})
after(() => stage?.close())
afterEach(async () => assert.deepEqual(await stage.tidy(), []))

const deep = (levels: number): object => (levels === 0 ? { end: 'here' } : { [`level${levels}`]: deep(levels - 1) })
const markup = '<img src=x onerror="document.title=1"><script>document.title="taken"</script>'
const address = 'javascript:alert(document.domain)'
const links = '](javascript:alert(1)) [click](https://evil.example) https://evil.example/x'
const long = 'a'.repeat(300)
const hostile = [markup, address, links, long, '{{constructor.constructor("return 1")()}}', '</textarea><svg onload=alert(1)>']
const all = hostile.join(' ')

/** Nothing of it became more than text, and nothing of it pushes the page apart. */
async function isPlain(page: Page, where: string): Promise<void> {
  const found = await page.evaluate<Record<string, unknown>>(
    `({ images: document.querySelectorAll('#page img, body > img').length, scripts: document.querySelectorAll('#page script').length, vectors: document.querySelectorAll('svg[onload]').length, links: [...document.querySelectorAll('a')].filter((a) => a.origin !== location.origin || a.protocol === 'javascript:').map((a) => a.href), handlers: [...document.querySelectorAll('*')].filter((one) => [...one.attributes].some(({ name }) => name.startsWith('on'))).length, taken: document.title === '1' || document.title === 'taken', sideways: document.documentElement.scrollWidth > innerWidth || [...document.querySelectorAll('aside')].some((one) => one.scrollWidth > one.clientWidth) })`,
  )
  assert.deepEqual(found, { images: 0, scripts: 0, vectors: 0, links: [], handlers: 0, taken: false, sideways: false }, where)
}
async function looked(page: Page, path: string, shot: string, message = 'onerror='): Promise<void> {
  await page.setViewportSize({ width: 1440, height: 900 })
  await page.goto(stage.url + path)
  await page.locator('h1').first().waitFor()
  await page.getByText(message).first().waitFor({ state: 'attached' })
  await isPlain(page, path)
  await shoot(page, `hostile-${shot}`)
  await page.setViewportSize({ width: 390, height: 844 })
  await isPlain(page, `${path} on a phone`)
  await shoot(page, `hostile-${shot}-phone`)
}
const inline = (text: string | Buffer): object => ({
  kind: 'inline',
  uri: `data:application/octet-stream;base64,${Buffer.from(text).toString('base64')}`,
})
async function begun(goal: string): Promise<string> {
  const { task } = await stage.call('maya', 'collaboration/task.create', { spec: { goal, acceptance_criteria: [all] } })
  await stage.call('maya', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_robin' })
  await stage.call('robin', 'collaboration/task.start', { task_id: task.id })
  return task.id
}

describe('text written by an agent stays text', () => {
  test('in an approval, with as much and as deep as is taken', async () => {
    const fields = Object.fromEntries(hostile.map((text, i) => [`field_${i} ${text.slice(0, 30).replaceAll(/["\\]/g, '')}`, text]))
    const asked = await stage.ask(
      'robin',
      {
        item: markup,
        details: { ...fields, target: address, deep: deep(limits.detailsDepthMax - 2), long: 'x'.repeat(12_000) },
        context: all.slice(0, 500),
        scope: 'a:b',
      },
      { risk: 'R2', tags: [address] },
    )
    await stage.call('maya', 'execution/request.question', { request_id: asked.id, text: 'Why?' })
    await stage.call('robin', 'execution/request.reply', { request_id: asked.id, text: all })
    const page = await stage.open('maya')
    await looked(page, `/inbox/${asked.id}`, 'approve')
    const args = (await page.getByTestId('item-args').textContent())!
    for (const text of [...hostile, 'here', 'x'.repeat(12_000)]) assert.ok(args.includes(text), text.slice(0, 40))
  })

  test('in a decision and in what is asked for', async () => {
    const decide = await stage.ask(
      'robin',
      {},
      {
        action: 'DECIDE',
        payload: { question: `${markup} or not?`, options: [markup, links.slice(0, 200), 'plain'], context: all.slice(0, 500) },
      },
    )
    const provide = await stage.ask(
      'robin',
      {},
      { action: 'PROVIDE', payload: { prompt: markup, input_type: 'text', placeholder: markup.slice(0, 100) } },
    )
    const page = await stage.open('maya')
    await looked(page, `/inbox/${decide.id}`, 'decide')
    await page.setViewportSize({ width: 1440, height: 900 })
    await page.getByRole('radio', { name: markup }).check()
    await looked(page, `/inbox/${provide.id}`, 'provide')
  })

  test('in a checkpoint, a report, a card, a delivery and what is said about them', async () => {
    const task = await begun(`${markup} and so on`)
    const { items } = await stage.call('maya', 'delegation/run.list', { task_id: task })
    await stage.call('robin', 'delegation/run.progress', { run_id: items[0].run_id, message: all.slice(0, 400), percent: 40 })
    await stage.call('robin', 'delegation/agent.publish', {
      name: 'Robin',
      description: all,
      capabilities: [],
      tags: [],
    })
    await stage.call('robin', 'collaboration/checkpoint.raise', {
      task_id: task,
      kind: 'approval',
      prompt: markup,
      context: [
        { kind: 'text', text: all },
        { kind: 'link', uri: address, title: markup },
      ],
      proposed_actions: [{ id: 'one', kind: markup.slice(0, 60), summary: all.slice(0, 300), detail: all, risk: 'low' }],
    })
    const page = await stage.open('maya')
    const { items: asked } = await stage.call('maya', 'execution/inbox.list', { task_id: task })
    await looked(page, `/inbox/${asked[0].request_id}`, 'checkpoint')
    await looked(page, `/tasks/${task}`, 'task')
    await looked(page, '/tasks', 'tasks')
    await looked(page, '/agents', 'agents')
    await stage.call('maya', 'collaboration/checkpoint.resolve', {
      checkpoint_id: asked[0].checkpoint_id,
      action: 'approve',
    })
    await stage.call('robin', 'collaboration/artifact.commit', {
      task_id: task,
      type: 'html',
      payload: { ...inline(`<h1>${all}</h1>\n`), name: 'evil.png', media_type: 'image/png' },
    })
    await looked(page, `/reviews/${task}`, 'review')
    // The list of events has no words of the agent; an event that is opened has.
    await looked(page, `/record?task=${task}`, 'record', 'artifact.committed')
    await page.setViewportSize({ width: 1440, height: 900 })
    await page.locator('[data-testid=record-row][data-action$="checkpoint.raised"]').getByRole('button').click()
    await page.getByTestId('event-changes').getByText('onerror=').first().waitFor()
    await isPlain(page, 'an event of the record')
  })

  test('characters that hide or reverse text are shown and flagged', async () => {
    const asked = await stage.ask(
      'robin',
      { item: 'Approve this', details: { path: 'safe\u202Egpj.exe', zero: 'ad\u200Bmin' }, context: 'look \u202Eereh' },
      { risk: 'R1' },
    )
    const page = await stage.open('maya', `/inbox/${asked.id}`)
    await page.getByTestId('item-args').getByText('\\u{202E}').waitFor()
    assert.ok(!(await page.getByTestId('item-detail').textContent())!.includes('\u202E'))
    await page.getByTestId('item-flagged').waitFor()
    await shoot(page, 'item-flagged')
  })
})

describe('a deliverable', () => {
  async function delivered(bytes: Buffer, about: object): Promise<string> {
    const task = await begun('Deliver something')
    const client = createClient({ url: stage.url, key: stage.keyOf('robin') })
    const { uri, checksum, size } = await client.upload(
      'collaboration/artifact.upload',
      { task_id: task },
      new Blob([new Uint8Array(bytes)]),
    )
    await stage.call('robin', 'collaboration/artifact.commit', {
      task_id: task,
      type: 'thing',
      payload: { kind: 'blob', uri, checksum, size, ...about },
    })
    await client.close()
    return task
  }

  test('of 50 MB, of no valid text, or as a page that calls itself a picture is never run and never shown as one', async () => {
    const page = await stage.open('maya')
    const huge = await delivered(Buffer.alloc(50 * 1024 * 1024, 'a'), { name: 'huge.txt' })
    await page.goto(`${stage.url}/reviews/${huge}`)
    await page.getByText('It is too large to show').waitFor()
    await page.getByRole('button', { name: 'Download' }).first().waitFor()
    await shoot(page, 'review-huge')
    const broken = await delivered(Buffer.from([0x66, 0xff, 0xfe, 0xc3, 0x28]), { name: 'broken.txt' })
    await page.goto(`${stage.url}/reviews/${broken}`)
    await page.getByText('It is not text').waitFor()
    for (const name of ['a.png', 'a.svg', 'a.html', 'a.pdf']) {
      const task = await delivered(Buffer.from(`<svg onload=alert(1)><script>document.title=1</script></svg>`), {
        name,
        media_type: 'image/png',
      })
      await page.goto(`${stage.url}/reviews/${task}`)
      await page.getByTestId('diff-line').getByText('<svg onload=alert(1)>').waitFor()
      await isPlain(page, name)
    }
  })

  test('that is a raster image by its first bytes is shown, verified, from a blob', async () => {
    const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')
    const task = await delivered(png, { name: 'a.html', media_type: 'text/html' })
    const page = await stage.open('maya', `/reviews/${task}`)
    const image = page.locator('figure img')
    await image.waitFor()
    assert.match((await image.getAttribute('src'))!, /^blob:/)
    await page.getByText('bytes verified').waitFor()
  })
})

describe('other pages', () => {
  test('cannot frame this one', async () => {
    const page = await stage.open('maya')
    const server = createServer((_, answer) => {
      answer.setHeader('content-type', 'text/html')
      answer.end(`<iframe src="${stage.url}/inbox" width=600 height=400></iframe>`)
    })
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    try {
      await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
      await page.waitForTimeout(500)
      const framed = page.frames().find((frame) => frame !== page.mainFrame())
      assert.equal((await framed?.locator('#page').count()) ?? 0, 0)
    } finally {
      server.close()
      // That the frame was refused is what the browser says here.
      stage.amiss()
    }
  })

  test('and scripts that somehow came in do not run: a violation is noticed', async () => {
    const page = await stage.open('maya')
    await page.getByTestId('inbox-list').or(page.getByTestId('inbox-empty')).waitFor()
    const blocked = await page.evaluate<string[]>(`new Promise((done) => {
      const said = []
      addEventListener('securitypolicyviolation', ({ effectiveDirective }) => said.push(effectiveDirective))
      try { document.body.insertAdjacentHTML('beforeend', '<b>x</b>') } catch { said.push('threw') }
      const image = new Image()
      image.src = 'https://evil.example/x.png'
      const style = document.createElement('style')
      style.textContent = 'body { display: none }'
      document.head.append(style)
      const isTold = () => ['threw', 'img-src'].every((one) => said.includes(one)) && said.some((one) => one.startsWith('style-src'))
      let looks = 0
      const timer = setInterval(() => (isTold() || ++looks === 200) && (clearInterval(timer), done(said)), 50)
    })`)
    assert.ok(
      blocked.includes('threw') && blocked.includes('img-src') && blocked.some((one) => one.startsWith('style-src')),
      blocked.join(' '),
    )
    await until(async () => stage.amiss().some((message) => message.startsWith('the policy was violated')))
    // The words about the others may come a little later.
    await page.close()
    stage.amiss()
  })
})
