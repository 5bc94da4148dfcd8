// docs/agents.md and the section of README.md about the first agent, word for word against a fresh server.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { createClient } from '#sdk/index.ts'
import { until } from '../support/as-processes/agents.ts'
import { root, startUp, temporary, type Running } from '../support/as-processes/cli.ts'
import { cloneIn, pathWithOldNode } from '../support/as-processes/clone.ts'

type Block = { readonly language: string; readonly text: string }
function blocksIn(path: string, heading: string): Block[] {
  const text = readFileSync(join(root, path), 'utf8')
  const section = text.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  return [...section.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language, message]) => ({ language: language!, text: message! }))
}
const programIn = (blocks: readonly Block[]): string => blocks.find(({ language }) => language === 'ts')!.text

function isPrinted(printed: string, shown: string): boolean {
  const parts = shown.split('…').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
  return new RegExp(`^${parts.join('[^\\n]+')}$`).test(printed)
}

type Terminal = { run(commands: string): Promise<string>; readonly shell: ChildProcess; readonly said: { err: string } }
const MARK = '--- done ---\n'

/** A shell in a clone with the program of the page, where the first `node` is an old one. */
function terminal(folder: string, program: string, server: Running): Terminal {
  const clone = cloneIn(folder)
  writeFileSync(join(clone, /^\/\/ (\S+)$/m.exec(program)![1]!), program)
  const env = { PATH: pathWithOldNode(folder), HOME: folder, COUNTERSIGN_URL: server.url, COUNTERSIGN_DATA: server.data }
  const shell = spawn('sh', ['-s'], { cwd: clone, env, stdio: ['pipe', 'pipe', 'pipe'] })
  const said = { err: '' }
  let out = ''
  shell.stdout.setEncoding('utf8').on('data', (part: string) => (out += part))
  shell.stderr.setEncoding('utf8').on('data', (part: string) => (said.err += part))
  return {
    shell,
    said,
    async run(commands) {
      out = ''
      shell.stdin.write(`${commands}echo '${MARK.trim()}'\n`)
      await until(() => out.endsWith(MARK), `the end of ${commands}${said.err}`, { lateMs: 60_000 })
      return out.slice(0, -MARK.length)
    },
  }
}

async function close({ shell }: Terminal, server: Running, folder: string): Promise<void> {
  const gone = once(shell, 'close')
  shell.stdin!.end('kill $! 2>/dev/null\n')
  await gone
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
}

describe('your first agent', () => {
  const page = blocksIn('docs/agents.md', 'Your first agent in five minutes')
  const section = blocksIn('README.md', 'Your first agent')

  test('docs/agents.md works word for word, though the agent is killed in the middle', async () => {
    assert.ok(page.length >= 12, 'the blocks were found')
    assert.ok(programIn(page).trim().split('\n').length <= 10, 'ten lines')
    const folder = temporary('agents')
    const server = await startUp(join(folder, 'data'))
    const shell = terminal(folder, programIn(page), server)
    try {
      for (const [i, { language, text }] of page.entries()) {
        if (language !== 'sh') continue
        const next = page[i + 1]
        const shown = next?.language === 'text' ? next.text : null
        // A reader who looks before the agent has come so far looks again.
        const looks = /^countersign (checkpoint list|task get) .*\n$/.test(text)
        let printed = ''
        await until(
          async () => {
            printed = await shell.run(text)
            return !looks || shown === null || isPrinted(printed, shown)
          },
          `${text}prints\n${shown}`,
          { lateMs: 60_000 },
        )
        if (shown !== null) assert.ok(isPrinted(printed, shown), `${text}prints\n${printed}${shell.said.err}`)
      }
    } finally {
      await close(shell, server, folder)
    }
  })

  test('the section of README.md gives an agent that people can assign tasks to', async () => {
    const folder = temporary('first-agent')
    const server = await startUp(join(folder, 'data'))
    const shell = terminal(folder, programIn(section), server)
    try {
      // As the tour leaves it.
      await shell.run('PATH=$PWD/bin:$PWD/node_modules/.bin:$PATH; countersign login --as user_owner >/dev/null\n')
      const [commands, prints] = section.filter(({ language }) => language !== 'ts')
      assert.equal(await shell.run(commands!.text), prints!.text)
      const admin = createClient({ url: server.url, key: readFileSync(join(server.data, 'admin.key'), 'utf8').trim() })
      const { key } = await admin.identity.key.issue({ subject: 'user_owner' })
      const owner = createClient({ url: server.url, key: key! })
      const { task } = await owner.collaboration.task.create({ spec: { goal: 'Greet' } })
      await owner.collaboration.task.assign({ task_id: task.id, assignee: 'agent_greeter' })
      const question = await until(async () => (await owner.collaboration.checkpoint.list()).items[0], 'a question')
      assert.equal(question.prompt, 'In which language? Greet')
      await owner.collaboration.checkpoint.resolve({ checkpoint_id: question.id, action: 'choose', choice: 'english' })
      const made = await until(async () => (await owner.collaboration.task.get({ task_id: task.id })).task.artifacts[0], 'an artifact')
      const { bytes } = await owner.download('collaboration/artifact.download', { artifact_id: made })
      assert.equal(Buffer.from(bytes).toString(), 'Hello!')
      await Promise.all([admin.close(), owner.close()])
    } finally {
      await close(shell, server, folder)
    }
  })
})
