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

const style =
  'body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}' +
  'a{color:#0b57d0}code{background:#f1f1f1;padding:.1em .3em}button{font:inherit;padding:.4em 1em}' +
  '@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}a{color:#8ab4f8}code{background:#2a2a2a}}'

/** Whole, because its hash in the header covers every character between the tags. */
const styleElement: Html = { markup: `<style>${style}</style>` }

/** No script at all, and only this one style. */
export const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${hash('sha256', style, 'base64')}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  'x-frame-options': 'DENY',
  // Where a page names no referrer at all, a browser says for its forms that they come from nowhere, as those of other sites do.
  'referrer-policy': 'same-origin',
} as const

function page(title: string, body: Html): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title}</title>
        ${styleElement}
      </head>
      <body>
        <main>
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

const howToSignIn = html`<p>You are not signed in. A login link signs you in; it works once.</p>
  <ul>
    <li>The server prints one for its owner whenever it starts.</li>
    <li>An owner makes one for you: <code>countersign login issue &lt;your user id&gt;</code></li>
  </ul>`

function waitingWords(waiting: number | null): string {
  if (waiting === null) return ''
  if (waiting === 0) return 'Nothing waits for your answer.'
  return waiting === 1 ? '1 item waits for your answer.' : `${waiting} items wait for your answer.`
}

/** `person`: who is signed in, with the number of items that wait for them where it is known; or null. */
export function homePage(person: { readonly id: string; readonly waiting: number | null } | null): string {
  if (person === null) return page('Countersign', html`${howToSignIn} ${whereToLook}`)
  return page(
    'Countersign',
    html`<p>You are signed in as <strong>${person.id}</strong>. ${waitingWords(person.waiting)}</p>
      ${howToAnswer}
      <form method="post" action="/logout"><button>Sign out</button></form>
      ${whereToLook}`,
  )
}

/** One thing to do, and a button that does it: the form goes to the address of the page itself. */
export const buttonPage = (title: string, words: string, button: string): string =>
  page(
    title,
    html`<p>${words}</p>
      <form method="post"><button>${button}</button></form>`,
  )
export const wordsPage = (title: string, words: string): string => page(title, html`<p>${words}</p>`)

export const badLinkPage = (): string =>
  page(
    'This link does not work',
    html`<p>A login link works once and for a short time; this one was used before, has expired, or never existed.</p>
      <p>Ask an owner for a new one, or restart the server: it prints one for the owner. <a href="/">Back to the start</a></p>`,
  )
