// Passkeys on the page, with the virtual authenticator of Chromium: added in Settings, asked for by a decision that a policy wants signed.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import type { CDPSession, Page } from 'playwright-core'
import { verifyReceipt } from '#sdk/receipt.ts'
import { pressUntil, sendNow } from '../support/browser/acts.ts'
import { shoot } from '../support/browser/shots.ts'
import { openStage, type Person, type Stage } from '../support/browser/stage.ts'

let stage: Stage
before(async () => {
  stage = await openStage()
  await stage.call('maya', 'execution/policy.set', { project_id: 'project_default', passkey_from: 'R4' })
  await stage.call('admin', 'identity/project.join', { project_id: 'project_default', subject: 'user_tom' }).catch(() => undefined)
})
after(() => stage?.close())
afterEach(async () => assert.deepEqual(await stage.tidy(), []))

/** Browsers have no passkeys for an IP address. */
const named = (url: string): string => url.replace('127.0.0.1', 'localhost')

type Device = { readonly session: CDPSession; readonly authenticatorId: string }
async function withDevice(page: Page): Promise<Device> {
  const session = await page.context().newCDPSession(page)
  await session.send('WebAuthn.enable')
  const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return { session, authenticatorId }
}

/** A person at the address of the passkeys, with a passkey on this device. */
async function enrolled(person: Person): Promise<{ readonly page: Page; readonly device: Device }> {
  const page = await stage.open(person, '/inbox')
  await page.goto(named(await stage.link(person, '/settings/passkeys')))
  const device = await withDevice(page)
  await page.getByLabel('Label').fill('Laptop')
  await page.getByRole('button', { name: 'Add a passkey' }).click()
  await page.getByTestId('passkey-list').getByText('Laptop').waitFor()
  return { page, device }
}

async function approve(page: Page, id: string, send = sendNow): Promise<void> {
  await page.goto(`${named(stage.url)}/inbox/${id}`)
  await page.getByTestId('item-effects').waitFor()
  await page.getByTestId('item-raw').scrollIntoViewIfNeeded()
  await pressUntil(page, 'a', page.locator('[aria-label="Confirmation phrase"]:focus'))
  const field = page.getByRole('textbox', { name: 'Confirmation phrase' })
  await field.fill('')
  await field.pressSequentially('approve R4')
  await pressUntil(page, 'Enter', page.getByTestId('undo-toast'))
  await send(page)
}

test('a decision from R4 on is signed by the device, after the five seconds, and the receipt shows it', async () => {
  const { page, device } = await enrolled('maya')
  await shoot(page, 'passkeys')
  const { id } = await stage.ask('robin', { item: 'Deploy to production' }, { risk: 'R4' })
  await approve(page, id, () => Promise.resolve())
  await page.getByTestId('item-decided').waitFor()
  await page.getByTestId('signed-by-passkey').waitFor()
  await shoot(page, 'signed-by-passkey')
  const { receipt } = await stage.call('robin', 'execution/request.get', { request_id: id })
  const { items } = await stage.call('maya', 'identity/passkey.list')
  const jwks = await (await fetch(`${stage.url}/.well-known/jwks.json`)).json()
  const verdict = await verifyReceipt(receipt, { jwks, passkeys: items })
  assert.ok(verdict.ok, JSON.stringify(verdict))

  await page.getByTestId('item-receipt').getByRole('link', { name: 'Why?' }).click()
  await page.getByText('You answer for it.').waitFor()
  await page.getByTestId('why-step').getByText('signed by passkey').waitFor()
  await shoot(page, 'why')

  // The device does not verify the person: nothing is decided, and nothing has to be typed again.
  const next = await stage.ask('robin', { item: 'Delete the archive' }, { risk: 'R4' })
  await device.session.send('WebAuthn.setUserVerified', { authenticatorId: device.authenticatorId, isUserVerified: false })
  await approve(page, next.id)
  await page.getByText('Nothing was signed').first().waitFor()
  assert.equal((await stage.call('maya', 'execution/request.get', { request_id: next.id })).request.status, 'pending')
  await shoot(page, 'not-signed')
  await device.session.send('WebAuthn.setUserVerified', { authenticatorId: device.authenticatorId, isUserVerified: true })
  await pressUntil(page, 'Enter', page.getByTestId('undo-toast'))
  await sendNow(page)
  await page.getByTestId('item-decided').waitFor()
})

test('a vote is signed too, and a person without a passkey is told to add one', async () => {
  const asked = { risk: 'R4', quorum: { n: 2, of: ['user_tom', 'user_ines'] } }
  const { id } = await stage.ask('robin', { item: 'Open the vault' }, asked)
  const { page } = await enrolled('tom')
  await approve(page, id)
  await page.getByText('Your vote is recorded').waitFor()
  const ines = await stage.open('ines', '/inbox')
  await ines.goto(named(await stage.link('ines', `/inbox/${id}`)))
  await approve(ines, id)
  await ines.getByText('add one in Settings, Passkeys').first().waitFor()
  assert.equal((await stage.call('ines', 'execution/request.get', { request_id: id })).request.status, 'pending')
})

test('at an IP address the page says where passkeys work', async () => {
  const page = await stage.open('maya', '/settings/passkeys')
  await page.getByTestId('passkey-site').getByRole('link').waitFor()
  assert.match(
    (await page.getByTestId('passkey-site').getByRole('link').getAttribute('href'))!,
    /^http:\/\/localhost:\d+\/settings\/passkeys$/,
  )
  await shoot(page, 'passkey-site')
})
