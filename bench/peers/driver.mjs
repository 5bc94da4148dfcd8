// What the drivers of peers share: a question is asked with POST /ask/<id>, a person answers it with POST /answer/<id>, and POST /wait/<id>
// returns when the asker's own code has the answer. Each driver runs in the folder where its peer is installed.
import { createServer } from 'node:http'

const answers = new Map()
const waiting = new Map()

/** The asker's code calls this when it has its answer. */
export function received(id, answer) {
  const wake = waiting.get(id)
  if (wake === undefined) answers.set(id, answer)
  else wake(answer)
  waiting.delete(id)
}

/** Waits in this process; `recall` looks up an answer that the asker had before it was killed. */
function waitFor(id, recall) {
  const answer = answers.get(id)
  if (answers.delete(id)) return answer
  return new Promise((wake) => {
    waiting.set(id, wake)
    Promise.resolve(recall?.(id)).then(
      (found) => found !== undefined && found !== null && received(id, found),
      () => undefined,
    )
  })
}

/** Without `ask` and `answer` the peer's own server takes those calls. POST /again/<id> waits for an answer after a restart. */
export function serve({ ask, answer, recall }) {
  const steps = { ask, answer, wait: (id) => waitFor(id), again: (id) => waitFor(id, recall) }
  const server = createServer((request, response) => {
    const [, step, id] = request.url.split('/')
    const parts = []
    request.on('data', (part) => parts.push(part))
    const reply = (status, text) =>
      response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }).end(text)
    request.on('end', () => {
      const body = Buffer.concat(parts).toString()
      Promise.resolve(steps[step](id, body === '' ? undefined : JSON.parse(body))).then(
        (result) => reply(200, JSON.stringify({ id, result: result ?? null })),
        (error) => reply(500, String(error?.stack ?? error)),
      )
    })
  })
  server.listen(0, '127.0.0.1', () => console.log(`driver ready http://127.0.0.1:${server.address().port}`))
}

export const question = { question: 'Approve $99/mo Stripe plan?', options: ['Approve', 'Deny'] }
