// `npm run bench`: everything that docs/benchmarks.md tells, measured here and now. `npm run bench -- store http` runs a part.
import { cpus } from 'node:os'
import { acp } from './acp.ts'
import { against } from './against.ts'
import { agents } from './agents.ts'
import { attack } from './attack.ts'
import { bytes } from './bytes.ts'
import { commands } from './commands.ts'
import { config } from './config.ts'
import { device } from './device.ts'
import { flow } from './flow.ts'
import { gate } from './gate.ts'
import { harness } from './harness.ts'
import { a2a } from './a2a.ts'
import { hook } from './hook.ts'
import { http } from './http.ts'
import { hxp } from './hxp.ts'
import { inbox } from './inbox.ts'
import { install } from './install.ts'
import { jsonrpc } from './jsonrpc.ts'
import { mcp } from './mcp.ts'
import { page } from './page.ts'
import { peers } from './peers.ts'
import { python } from './python.ts'
import { reads } from './reads.ts'
import { tableOf, type Bench, type Row } from './report.ts'
import { servers } from './servers.ts'
import { size } from './size.ts'
import { start } from './start.ts'
import { store } from './store.ts'
import { streams } from './streams.ts'

const benches: readonly Bench[] = [
  store,
  reads,
  http,
  flow,
  streams,
  agents,
  hxp,
  inbox,
  gate,
  harness,
  jsonrpc,
  device,
  size,
  bytes,
  attack,
  start,
  commands,
  config,
  hook,
  a2a,
  mcp,
  acp,
  install,
  page,
  python,
  servers,
  peers,
]
const width = Math.max(...benches.map(({ name }) => name.length))
const help = `npm run bench [-- name ...]
npm run bench -- --against <checkout>   another checkout with its own node_modules, in turn with this one

Measures on this machine and ends with a table; exit code 1 when a goal was missed. Without a name, all of these:

${benches.map(({ name, message }) => `  ${name.padEnd(width)}  ${message}`).join('\n')}

BENCH_FOLDER  where the files are made; the system's temporary folder by default
BENCH_CALLS   how many calls \`mcp\` makes in a round, and questions \`acp\` asks; 3000 and 200 by default
BENCH_TASKS   how many tasks \`size\` and \`start\` fill their store with; 100000 and 1000000 by default
BENCH_EVENTS, BENCH_SESSIONS  how many of them \`harness\` measures with; 20000 and 1000 by default
BENCH_ROUNDS  how many rounds \`servers\`, \`peers\` and \`--against\` take; 3, 5 and 7 by default
BENCH_OPEN, BENCH_PEERS  how many questions of \`peers\` stay open, 10000 by default; which of sqlite, postgres, restate, openai, mastra, dbos, langgraph, memory it runs
BENCH_AGAINST a commit that \`install\` is measured against, in turn`

const wanted = process.argv.slice(2)
if (wanted.includes('--help') || wanted.includes('-h')) {
  console.log(help)
  process.exit(0)
}
const [flag, checkout] = wanted
if (flag === '--against' && checkout === undefined) {
  console.error('--against needs the folder of another checkout')
  process.exit(2)
}
const chosen =
  flag === '--against'
    ? [against(checkout!)]
    : benches.filter(({ name, isByName }) => (wanted.length === 0 ? !isByName : wanted.includes(name)))
for (const name of flag === '--against' ? [] : wanted) {
  if (benches.some((bench) => bench.name === name)) continue
  console.error(`there is no benchmark ${name}: ${benches.map((bench) => bench.name).join(', ')}`)
  process.exit(2)
}

console.log(`Node ${process.version}, ${cpus().length} cores (${cpus()[0]?.model.trim() ?? 'unknown'})`)
const rows: Row[] = []
for (const { name, message, run } of chosen) {
  console.log(`\n=== ${name}: ${message}`)
  const measured = await run((line) => console.log(line))
  rows.push(...measured.map((row) => ({ ...row, what: `${name}: ${row.what}` })))
}
console.log(`\n${tableOf(rows)}`)
const missed = rows.filter(({ goal }) => goal && !goal.met)
if (missed.length > 0) console.log(`\nMISSED: ${missed.map(({ what, goal }) => `${what} ${goal!.message}`).join('; ')}`)
process.exitCode = missed.length === 0 ? 0 : 1
