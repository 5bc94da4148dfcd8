// The profile: the signed-in person, the look of the page, and signing out.
import { useState } from 'react'
import { singleKeys, useSingleKeys } from '../app/commands.ts'
import { chooseTheme, chosenTheme, type Theme } from '../app/theme.ts'
import { CountersignError } from '#sdk/index.ts'
import { ActButton } from '../parts/act-button.tsx'
import { Radios } from '../parts/fields.tsx'
import { Switch } from '../parts/switch.tsx'
import { queries, session } from '../server/client.ts'
import { Phone } from './phone.tsx'
import { useMe, useMyName } from '../server/names.ts'

async function signOut(): Promise<void> {
  const answer = await fetch('/logout', { method: 'POST', headers: { accept: 'application/json' } }).catch(() => null)
  if (answer === null) throw new CountersignError({ code: 'NETWORK', status: null, message: 'no answer', retryable: true })
  // After any other response the session might still be open.
  if (!answer.ok)
    throw new CountersignError({
      code: 'INTERNAL',
      status: answer.status,
      message: `you are still signed in: the server answered ${answer.status}`,
      retryable: false,
    })
  queries.clear()
  session.set(true)
  // The issuer ends its own session, if it can.
  const { location: further } = (await answer.json()) as { readonly location: string }
  location.assign(further === '/' ? '/inbox' : further)
}

export function Profile() {
  const me = useMe().data
  const name = useMyName()
  const [theme, setTheme] = useState<Theme>(chosenTheme)
  const isOn = useSingleKeys()
  return (
    <div className="stack">
      <section className="card facts">
        <dl>
          <dt>Name</dt>
          <dd>{name}</dd>
          <dt>Id</dt>
          <dd className="mono">{me?.id}</dd>
          <dt>Role</dt>
          <dd>{me?.role === 'owner' || me?.role === 'auditor' ? `${me.role} of the installation` : 'member'}</dd>
          <dt>Projects</dt>
          <dd>{me?.projects.map(({ project_id, role }) => `${project_id} (${role})`).join(', ')}</dd>
        </dl>
      </section>
      <section className="card form">
        <h3 className="h">Appearance</h3>
        <Radios
          label="Theme"
          value={theme}
          onValue={(value) => {
            setTheme(value as Theme)
            chooseTheme(value as Theme)
          }}
          options={[
            { value: 'system', label: 'Match system' },
            { value: 'light', label: 'Light' },
            { value: 'dark', label: 'Dark' },
          ]}
        />
        <Switch label="Single keys" checked={isOn} onChange={singleKeys.set} note="J, K, A, R and the others act without Ctrl." />
      </section>
      <Phone />
      <section className="card form">
        <h3 className="h">On this device</h3>
        <p className="note">Install the app to open it faster. You can't decide while offline.</p>
        <div className="row">
          <a className="btn sm" href="/install?next=/settings/profile">
            Install
          </a>
          <span className="grow" />
          <ActButton className="btn sm danger" changes={[]} act={signOut}>
            Sign out
          </ActButton>
        </div>
      </section>
    </div>
  )
}
