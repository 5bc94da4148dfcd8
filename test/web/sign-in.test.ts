// Signing in: whose session it is, and that a page speaks for the person it was opened for and for nobody else.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { pressUntil, until } from '../support/browser/acts.ts'
import { shoot } from '../support/browser/shots.ts'
import { openStage, type Stage } from '../support/browser/stage.ts'

let stage: Stage
before(async () => {
  stage = await openStage()
})
after(() => stage?.close())
afterEach(() => assert.deepEqual(stage.amiss(), []))

test('another person signs in with the same browser: the link asks first, the open page says so at once and decides nothing', async () => {
  const { id } = await stage.ask('robin', { item: 'Rotate the key' }, { risk: 'R1' })
  const maya = await stage.open('maya', `/inbox/${id}`)
  await maya.getByTestId('item-detail').waitFor()
  const tom = await maya.context().newPage()
  await tom.goto(await stage.link('tom', '/inbox'))
  await tom.getByRole('heading', { name: 'Sign in as Tom Okafor?' }).waitFor()
  await shoot(tom, 'sign-in-asks')
  assert.equal((await stage.call('tom', 'identity/session.list')).items.length, 0, 'the link alone has signed somebody in')
  // Held for five seconds when the other one comes.
  await pressUntil(maya, 'a', maya.getByTestId('undo-toast'))
  await tom.getByRole('button', { name: 'Sign in as Tom Okafor' }).click()
  await tom.getByTestId('inbox-badge').or(tom.getByTestId('inbox-empty')).or(tom.getByTestId('inbox-row')).first().waitFor()
  const dialog = maya.getByTestId('other-person')
  await dialog.getByRole('heading', { name: 'You are signed in as Tom Okafor now' }).waitFor()
  await shoot(maya, 'other-person')
  const refused = maya.waitForResponse((answer) => answer.url().endsWith('/request.resolve'))
  await maya.evaluate("dispatchEvent(new Event('pagehide'))")
  assert.equal((await (await refused).json()).error.code, 'OTHER_PERSON')
  assert.equal((await stage.call('maya', 'execution/request.get', { request_id: id })).request.status, 'pending')
  assert.deepEqual((await stage.call('maya', 'identity/session.list')).items, [], 'the session that was replaced has ended')
  await dialog.getByRole('button', { name: 'Load this page as Tom Okafor' }).click()
  await maya.getByTestId('other-person').waitFor({ state: 'detached' })
  // The first one comes back: her page works again, and his says so.
  await maya.goto(await stage.link('maya', '/inbox'))
  await maya.getByRole('button', { name: 'Sign in as Maya Lindqvist' }).click()
  await tom.getByRole('heading', { name: 'You are signed in as Maya Lindqvist now' }).waitFor()
})

test('a page that hears nothing of other tabs learns of another person by its next call, and shows nothing of theirs', async () => {
  const page = await stage.open('maya', '/inbox')
  await page.addInitScript('BroadcastChannel.prototype.postMessage = () => undefined')
  await page.goto(`${stage.url}/tasks`)
  await until(async () => (await stage.call('maya', 'identity/session.list')).items.length > 0)
  const tom = await page.context().newPage()
  await tom.addInitScript('BroadcastChannel.prototype.postMessage = () => undefined')
  await tom.goto(await stage.link('tom', '/inbox'))
  await tom.getByRole('button', { name: 'Sign in as Tom Okafor' }).click()
  await page.getByTestId('other-person').waitFor()
})

test('signed out: a key of a person signs in, one of an agent is refused in words, and the page goes on where it was', async () => {
  const { id } = await stage.ask('robin', { item: 'Small thing' }, { risk: 'R1' })
  const page = await stage.open('maya', '/inbox')
  await page.context().clearCookies()
  await page.goto(`${stage.url}/inbox/${id}`)
  const out = page.getByTestId('signed-out')
  await out.getByRole('heading', { name: 'You are not signed in' }).waitFor()
  const signIn = async (key: string): Promise<void> => {
    await out.getByLabel('Your key').fill(key)
    await out.getByRole('button', { name: 'Sign in', exact: true }).click()
  }
  await signIn(stage.keyOf('robin'))
  await out.getByText('This key is of agent_robin, which is no person').waitFor()
  await signIn('cs_nonsense')
  await out.getByText('This key is not valid here').waitFor()
  await shoot(page, 'sign-in-by-key')
  await out.getByRole('checkbox', { name: /Remember this device/ }).check()
  await signIn(stage.keyOf('maya'))
  await page.getByTestId('item-detail').waitFor()
  const { items } = await stage.call('maya', 'identity/session.list')
  const { browser, remembered } = items.at(-1)
  assert.deepEqual([browser, remembered], ['Chrome on Linux', true])
})

test('a decision that needs a fresh sign-in asks for one, keeps its place, and goes through after it', async () => {
  const { id } = await stage.ask('robin', { item: 'Small too' }, { risk: 'R1' })
  const page = await stage.open('maya', `/inbox/${id}`)
  await page.getByTestId('item-detail').waitFor()
  const refusal = { error: { code: 'PROOF_REQUIRED', message: 'this device is remembered: sign in again to do this', details: {} } }
  await page.route('**/v1/execution/request.resolve', (route) => route.fulfill({ status: 403, json: refusal }))
  await pressUntil(page, 'a', page.getByTestId('undo-toast'))
  await page.evaluate("dispatchEvent(new Event('pagehide'))")
  const proof = page.getByTestId('proof-required')
  await proof.getByRole('heading', { name: 'Sign in again to do this' }).waitFor()
  await shoot(page, 'proof-required')
  await proof.getByLabel('Your key').fill(stage.keyOf('tom'))
  await proof.getByRole('button', { name: 'Sign in', exact: true }).click()
  await proof.getByText('This key is of user_tom, and this page was opened for user_maya').waitFor()
  await page.unroute('**/v1/execution/request.resolve')
  await proof.getByLabel('Your key').fill(stage.keyOf('maya'))
  await proof.getByRole('button', { name: 'Sign in', exact: true }).click()
  await proof.waitFor({ state: 'detached' })
  await page.getByTestId('item-detail').waitFor()
})
