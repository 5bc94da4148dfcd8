// The commands of configurations. Their code, with the reader of YAML, is loaded when one of them runs.
import { spec, type Spec } from '../derive/command.ts'
import { flag } from '../derive/flags.ts'

const applySpec = spec('apply', 'Make people, groups, projects, agents and rules what a file says, or the files of a folder.', {
  flags: [
    { ...flag('file', 'path', 'YAML or JSON: a file, a folder, or - for standard input'), short: 'f', required: true },
    flag('dry-run', null, 'show the difference, and change nothing'),
    flag('prune', null, 'also remove what the file had set before and does not name any more'),
  ],
  examples: ['countersign apply -f company.yaml --dry-run', 'countersign apply -f company.yaml', 'countersign apply -f company --prune'],
  async run(context, given) {
    const { apply } = await import('./commands.ts')
    return apply(context, {
      path: given.get('file') as string,
      isDry: given.get('dry-run') === true,
      prunes: given.get('prune') === true,
    })
  },
})

const exportConfigSpec = spec(
  'export-config',
  'Write the present people, groups, projects, agents and rules as a file for `countersign apply`.',
  {
    flags: [flag('name', 'name', 'the name that the file gives itself')],
    examples: ['countersign export-config > company.yaml', 'countersign export-config --json'],
    async run(context, given) {
      const { exportConfig } = await import('./commands.ts')
      return exportConfig(context, given.get('name') as string | undefined)
    },
  },
)

export const configSpecs: readonly Spec[] = [applySpec, exportConfigSpec]
