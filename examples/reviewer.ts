// A reviewer: it reads the diffs that its task names, asks before it calls a finding a blocker, and delivers a report. People decide about
// the work; an agent never submits a review.
//
//   COUNTERSIGN_KEY=... node examples/reviewer.ts
import { serve, type Run } from 'countersign/agent'

type Spec = { goal: string; inputs: { id: string; uri?: string }[] }
type Finding = { file: string; line: number; message: string; isSevere: boolean }

const rules: { pattern: RegExp; message: string; isSevere: boolean }[] = [
  { pattern: /password\s*=\s*['"]/i, message: 'a password in the source', isSevere: true },
  { pattern: /\bconsole\.log\b/, message: 'a forgotten console.log', isSevere: false },
  { pattern: /^.{121,}$/, message: 'a line of more than 120 characters', isSevere: false },
]

function review(file: string, diff: string): Finding[] {
  return diff
    .split('\n')
    .flatMap((text, i) =>
      rules
        .filter(({ pattern }) => text.startsWith('+') && pattern.test(text))
        .map(({ message, isSevere }) => ({ file, line: i + 1, message, isSevere })),
    )
}

async function handle(run: Run<Spec>): Promise<void> {
  const findings: Finding[] = []
  for (const [i, { id, uri }] of run.input.inputs.entries()) {
    await run.progress(`Reading ${id}.`, (100 * i) / run.input.inputs.length)
    // A restarted process does not read it again.
    findings.push(...(await run.memo(`review/${id}`, async () => review(id, await (await fetch(uri ?? 'data:,')).text()))))
  }
  const severe = findings.filter(({ isSevere }) => isSevere)
  const verdict =
    severe.length === 0
      ? 'note'
      : (await run.ask.decide(`${severe.length} of the findings look severe. How shall I report them?`, ['blocker', 'note'])).result
  const lines = findings.map(({ file, line, message, isSevere }) => `${isSevere ? verdict : 'note'}: ${file}:${line}: ${message}`)
  await run.commit(lines.length === 0 ? 'No findings.\n' : `${lines.join('\n')}\n`, { type: 'report' })
}

serve<Spec>({ agent_id: 'agent_reviewer', name: 'Reviewer', tags: ['review'] }, handle, { concurrency: 4, signals: true })
