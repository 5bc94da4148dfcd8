// `node scripts/tics.ts [folder]`: lists the tics of REVIEW.md in comments and documents; `--lower` writes the counts of folders that have fewer by now.
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { countTics, NO_TIC_FILES, readTable, TIC_FILES, TIC_TABLE, ticsIn } from '#test/support/laws/tics.ts'

const root = join(import.meta.dirname, '..')
const files = globSync(TIC_FILES, { cwd: root, exclude: NO_TIC_FILES }).toSorted()
const tics = files.flatMap((path) => ticsIn(path, readFileSync(join(root, path), 'utf8')))
const [option] = process.argv.slice(2)

if (option === '--lower') {
  const table = readTable(root)
  const lowered = Object.entries(countTics(tics)).map(([folder, count]) => [folder, Math.min(count, table[folder] ?? 0)] as const)
  writeFileSync(join(root, TIC_TABLE), `${JSON.stringify(Object.fromEntries(lowered.filter(([, count]) => count > 0)), null, 2)}\n`)
} else
  for (const { path, line, found, instead } of tics)
    if (option === undefined || path.startsWith(option)) console.log(`${path}:${line}: "${found}": ${instead}`)
