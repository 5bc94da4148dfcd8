// The tour of docs/tour-cli.md, word for word against a fresh server.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { root, startUp, temporary } from './support/cli.ts'

type Shown = { readonly commands: string; readonly prints: string | null }

function blocksIn(markdown: string): Shown[] {
  const blocks = [...markdown.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language, text]) => ({ language, text: text! }))
  return blocks.flatMap(({ language, text }, i) => {
    const next = blocks[i + 1]
    return language === 'sh' ? [{ commands: text, prints: next?.language === 'text' ? next.text : null }] : []
  })
}

/** What is shown is what is printed; an ellipsis stands for what differs each time. */
function assertPrinted(printed: string, shown: string): void {
  const parts = shown.split('…').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
  assert.match(printed, new RegExp(`^${parts.join('[^\\n]+')}$`))
}

const MARK = '--- the next block ---'

async function run(
  shell: string,
  script: string,
  cwd: string,
  env: Record<string, string>,
): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(shell, ['-e', '-s'], { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] })
  const said = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (part: string) => (said.out += part))
  child.stderr.setEncoding('utf8').on('data', (part: string) => (said.err += part))
  child.stdin.end(script)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, ...said }
}

describe('docs/tour-cli.md', () => {
  const blocks = blocksIn(readFileSync(join(root, 'docs', 'tour-cli.md'), 'utf8'))

  test('works word for word, prints what it shows, and ends with a record that matches', async () => {
    assert.ok(blocks.length >= 9, 'the blocks were found')
    const folder = temporary('tour')
    const bin = join(folder, 'bin')
    mkdirSync(bin)
    symlinkSync(join(root, 'bin', 'countersign.js'), join(bin, 'countersign'))
    const server = await startUp(join(folder, 'data'))
    try {
      const script = blocks.map(({ commands }) => `${commands}echo '${MARK}'\n`).join('')
      const path = [bin, dirname(process.execPath), process.env['PATH']].join(delimiter)
      const env = { PATH: path, HOME: folder, COUNTERSIGN_URL: server.url, COUNTERSIGN_DATA: server.data }
      const { code, out, err } = await run('sh', script, folder, env)
      assert.equal(code, 0, err)
      // The one refusal that the tour shows, and nothing else.
      assert.match(err, /^(note: using the administrator's key.*\n)*countersign: task\.cancel is for: .* \[UNAUTHORIZED\]\n.*\n$/)
      const printed = out.split(`${MARK}\n`)
      for (const [i, { commands, prints }] of blocks.entries()) {
        if (prints === null) assert.equal(printed[i], '', commands)
        else assertPrinted(printed[i]!, prints)
      }
    } finally {
      await server.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  })

  test('an output that is not what is shown is noticed', () => {
    assert.throws(() => assertPrinted('assigned\n', 'in_progress\n'))
    assertPrinted('task task_1 completed\n', 'task task_… completed\n')
  })
})
