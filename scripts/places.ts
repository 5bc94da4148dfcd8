// The places that an operation, a protocol, a store, a binding, a bridge and a worker need in addition to their own files: `npm run check` names each that is
// missing, before any test runs.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { allFlags } from '#apps/cli/derive/command.ts'
import { nouns, specsOf } from '#apps/cli/derive/commands.ts'
import { protocols } from '#protocols/index.ts'
import { mistakes, patched } from '#test/simulation/mistakes.ts'
import { matrix } from '#test/support/laws/matrix.ts'
import { missingPlaces } from '#test/support/laws/places.ts'

const root = join(import.meta.dirname, '..')
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8')

function missing(): string[] {
  const [api, exhaustive] = [textOf('docs/api/operations.md'), textOf('test/laws/exhaustive.test.ts')]
  const cli = textOf('docs/cli.md')
  // Commands that the help hides are not documented either.
  const hidden = new Set(specsOf(protocols).flatMap((spec) => (spec.hidden ? (spec.operation ?? []) : [])))
  const simulated = globSync('test/simulation/*.ts', { cwd: root }).map(textOf).join('\n')
  return protocols.flatMap(({ name: protocol, operations }) => {
    const page = textOf(`docs/protocols/${protocol}.md`)
    return operations.flatMap((op) => {
      const name = `${protocol}/${op.name}`
      const isTried = protocol !== 'collaboration' || op.kind !== 'command' || exhaustive.includes(`'${op.name}'`)
      const isCommand = hidden.has(name) || cli.includes(`\`${name}\``)
      const isPlanned = !/^(collaboration|delegation)$/.test(protocol) || op.kind !== 'command' || simulated.includes(op.name)
      const places: readonly (readonly [boolean, string])[] = [
        [op.kind === 'stream' || Object.hasOwn(matrix, name), 'a row in test/support/laws/matrix.ts'],
        [isTried, 'a row in test/laws/exhaustive.test.ts'],
        [isPlanned, 'a plan in test/simulation/plans.ts'],
        [page.includes(`\`${op.name}\``), `its name in docs/protocols/${protocol}.md`],
        [api.includes(`### ${name}\n`), 'its description in docs/api: run `npm run docs:api`'],
        [isCommand, 'its command in docs/cli.md: run `npm run docs:cli`'],
      ]
      return places.flatMap(([isThere, place]) => (isThere ? [] : [`${name} has no place yet: ${place}`]))
    })
  })
}

/** Commands whose noun or fields have no words in the help. */
function wordless(): string[] {
  return specsOf(protocols).flatMap(({ operation, path, hidden, ...spec }) => {
    if (operation === null || hidden) return []
    const isKnown = path.length < 2 || Object.hasOwn(nouns, path[0]!)
    const fields = allFlags(spec).filter((flag) => flag.help === '')
    return [
      ...(isKnown ? [] : [`${operation} has no place yet: path for its noun ${path[0]} in src/apps/cli/derive/commands.ts`]),
      ...fields.map(
        ({ name }) => `${operation} has no place yet: words for --${name}, in its schema or in src/apps/cli/derive/field-help.ts`,
      ),
    ]
  })
}

const stale = mistakes.flatMap((mistake) => {
  try {
    patched(mistake)
    return []
  } catch (error) {
    return [
      `the planted mistake ${mistake.name} in test/simulation/mistakes.ts does not fit the source any more: ${(error as Error).message}`,
    ]
  }
})
const files = globSync('{src,test,docs}/**/*.*', { cwd: root, exclude: ['**/node_modules'] })
const found = [...missing(), ...wordless(), ...missingPlaces({ files, textOf }), ...stale]
for (const message of found) console.log(message)
process.exitCode = found.length === 0 ? 0 : 1
