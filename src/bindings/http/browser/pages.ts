// The few pages that the server renders itself. Text enters a page only through `html`, which escapes it: there is no other way.
import { hash } from 'node:crypto'

type Html = { readonly markup: string }
const escapes: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escape = (text: string): string => text.replace(/[&<>"']/g, (character) => escapes[character]!)

export function html(parts: TemplateStringsArray, ...values: readonly (string | Html)[]): Html {
  const markup = parts.map((part, i) => part + (i < values.length ? inside(values[i]!) : '')).join('')
  return { markup }
}
const inside = (value: string | Html): string => (typeof value === 'string' ? escape(value) : value.markup)

// The colours and measures of the page in the browser (src/web/style/tokens.css), without a file to load.
const style =
  ':root{color-scheme:light dark;--canvas:#f5f5f2;--surface:#fff;--sunken:#f2f1ed;--line:#e5e4df;--ink:#15171c;--ink-2:#474b54;--ink-3:#666a73;--accent:#2a4ecb;--primary:#15171c;--on-primary:#fff;--seal-line:#fff}' +
  '@media(prefers-color-scheme:dark){:root{--canvas:#0d0e11;--surface:#15171b;--sunken:#101216;--line:#272a30;--ink:#ecedf0;--ink-2:#b6bac3;--ink-3:#9297a2;--accent:#93a9ff;--primary:#f0f1f3;--on-primary:#101216;--seal-line:#101216}}' +
  '*{box-sizing:border-box}body{margin:0;min-height:100vh;display:grid;place-items:center;padding:24px;font:.875rem/1.5 Geist,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--canvas)}' +
  'main{width:100%;max-width:520px;padding:28px 32px;display:grid;gap:14px;background:var(--surface);border:1px solid var(--line);border-radius:12px}' +
  '.brand{display:flex;align-items:center;gap:8px;font-weight:600}.brand svg{width:22px;height:22px}.seal{fill:var(--ink)}.seal-line{stroke:var(--seal-line)}' +
  'h1{margin:0;font-size:1.25rem;font-weight:600;letter-spacing:-.014em;overflow-wrap:anywhere}h2{margin:6px 0 0;font-size:.875rem;font-weight:600}p,ul{margin:0}p{color:var(--ink-2);overflow-wrap:anywhere}ul{padding-left:18px}.note{color:var(--ink-3);font-size:.8125rem}' +
  'a{color:var(--accent)}code{background:var(--sunken);padding:.1em .3em;border-radius:4px;overflow-wrap:anywhere}' +
  'form{display:grid;gap:12px;justify-items:start}label{display:flex;gap:8px;align-items:flex-start}input{margin:3px 0 0;width:16px;height:16px;accent-color:var(--accent)}' +
  '.row{display:flex;flex-wrap:wrap;align-items:center;gap:16px}button{font:inherit;font-weight:500;min-height:36px;padding:6px 14px;border:0;border-radius:8px;background:var(--primary);color:var(--on-primary);cursor:pointer}' +
  ':focus-visible{outline:2px solid var(--accent);outline-offset:2px}'

/** Whole, because its hash in the header covers every character between the tags. */
const styleElement: Html = { markup: `<style>${style}</style>` }

/** No script at all, and only this one style. */
export const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${hash('sha256', style, 'base64')}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  'x-frame-options': 'DENY',
  // With `no-referrer`, browsers send `Origin: null` for our own forms, like for forms of other sites.
  'referrer-policy': 'same-origin',
} as const

const brand = html`<div class="brand">
  <svg viewBox="0 0 24 24" fill="none" aria-hidden="true">
    <path class="seal" d="M12 1.6 20.4 5v6.4c0 5.1-3.5 9-8.4 10.9C7.1 20.4 3.6 16.5 3.6 11.4V5z" />
    <path class="seal-line" d="m7.6 11.3 3 3 5.8-6.2" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" />
    <path class="seal-line" d="M8.4 17.6h7.2" stroke-width="1.4" stroke-linecap="round" opacity=".7" />
  </svg>
  <span>Countersign</span>
</div>`

function page(title: string, body: Html, head: Html = html``): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title}</title>
        ${head} ${styleElement}
      </head>
      <body>
        <main>
          ${brand}
          <h1>${title}</h1>
          ${body}
        </main>
      </body>
    </html> `.markup
}

const whereToLook = html`<h2>For programs</h2>
  <p>
    The API is described in <a href="/openapi.json">/openapi.json</a>; every operation is
    <code>POST /v1/&lt;protocol&gt;/&lt;operation&gt;</code> with <code>Authorization: Bearer &lt;key&gt;</code>. The documentation is in
    the folder <code>docs</code> of the source, with the generated list of operations in <code>docs/api/operations.md</code>. Whether the
    server is well: <a href="/health">/health</a>.
  </p>`

const howToAnswer = html`<p>
  Answer at a terminal: <code>countersign inbox</code> shows each item and takes your answer. The inbox in the browser is switched off here,
  or was not built.
</p>`

const howToSignInAt = (host: string): Html =>
  html`<p>You are not signed in.</p>
    <p><a href="/login/oidc">Sign in with ${host}</a></p>`
const howToSignIn = html`<p>You are not signed in. A login link signs you in; it works once.</p>
  <ul>
    <li>An owner makes one for you: <code>countersign login issue &lt;your user id&gt;</code></li>
    <li>On the machine of the server, its operator runs <code>countersign login --link</code></li>
  </ul>`

function waitingText(waiting: number | null): string {
  if (waiting === null) return ''
  if (waiting === 0) return 'Nothing waits for your answer.'
  return waiting === 1 ? '1 item waits for your answer.' : `${waiting} items wait for your answer.`
}

/** `issuer`: the host where people sign in. `person`: the signed-in person, with the number of waiting items if it is known; or null. */
export function homePage(person: { readonly id: string; readonly waiting: number | null } | null, issuer: string | null = null): string {
  if (person === null) return page('Countersign', html`${issuer === null ? howToSignIn : howToSignInAt(issuer)} ${whereToLook}`)
  return page(
    'Countersign',
    html`<p>You are signed in as <strong>${person.id}</strong>. ${waitingText(person.waiting)}</p>
      ${howToAnswer}
      <form method="post" action="/logout"><button>Sign out</button></form>
      ${whereToLook}`,
  )
}

/** A page with one button. Its form goes to the address of the page itself. */
export const buttonPage = (title: string, message: string, button: string): string =>
  page(
    title,
    html`<p>${message}</p>
      <form method="post"><button>${button}</button></form>`,
  )
export const wordsPage = (title: string, message: string): string => page(title, html`<p>${message}</p>`)

export const badLinkPage = (): string =>
  page(
    'This link does not work',
    html`<p>This link was already used or has expired. Ask an owner for a new one.</p>
      <p><a href="/">Back to the start</a></p>`,
  )

const daysText = (days: number): string => (days === 1 ? '1 day' : `${days} days`)

export type Named = { readonly id: string; readonly name: string }
const nameAndId = ({ id, name }: Named): Html => html`<strong>${name}</strong> (<code>${id}</code>)`

/** A page that redirects by itself, for responses that cannot be a redirect. */
export function leadOnPage(to: string): string {
  const refresh = html`<meta http-equiv="refresh" content="0;url=${to}" />`
  return page('One moment', html`<p><a href="${to}">Continue</a></p>`, refresh)
}

/** Asks before a program of this machine is signed in. */
export const commandLinePage = (machine: string, host: string): string =>
  page(
    'Sign in the command line?',
    html`<p>
        A program on <strong>${machine}</strong> asks to act as you. Continue only if you have just started
        <code>countersign login</code> there.
      </p>
      <form method="post">
        <div class="row"><button>Sign in with ${host}</button><a href="/">Cancel</a></div>
      </form>`,
  )

export const notSignedInPage = (message: string, host: string): string =>
  page(
    'You were not signed in',
    html`<p>${message}.</p>
      <p><a href="/login/oidc">Sign in with ${host}</a> or go <a href="/">back to the start</a>.</p>`,
  )

/** The page in place of a link if links are switched off. */
export const noLinksPage = (host: string): string =>
  page(
    'Login links are switched off here',
    html`<p>Nothing was used up. People sign in with their organisation's account.</p>
      <p><a href="/login/oidc">Sign in with ${host}</a></p>`,
  )

/** Asks before a link signs a browser in; `other`: the person whose session in this browser would end. */
export const signInPage = (person: Named, other: Named | null, rememberDays: number | null = 30): string =>
  page(
    `Sign in as ${person.name}?`,
    html`<p>This link signs you in as ${nameAndId(person)}.</p>
      ${
        other === null
          ? html``
          : html`<p>
              This browser is signed in as ${nameAndId(other)}. If you continue, that session ends, and pages that are open for
              ${other.name} stop working.
            </p>`
      }
      <form method="post">
        ${
          rememberDays === null
            ? html``
            : html`<label><input type="checkbox" name="remember" /><span>Remember this device for ${daysText(rememberDays)}</span></label>
                <p class="note">For your own device: you stay signed in to read and to decide up to R3. From R4 on you sign in again.</p>`
        }
        <div class="row"><button>Sign in as ${person.name}</button><a href="/">Cancel</a></div>
      </form>`,
  )
