// Configurations: changes of one part (the installation, or a project) in one commit, and what each file has set there.
import { canonical } from '#kernel/log/canonical-json.ts'
import { image } from '#kernel/declare/facts.ts'
import { administrator, heldBy, installationOwner, ownsProject, role } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { Config, ConfigName, ConfigPart } from '../schema.ts'

type OfPart = { readonly part: string | undefined }
const partOwner = heldBy(
  'an owner of the project',
  role<OfPart>('project owner', (actor, { part }) => actor.kind === 'human' && part !== undefined && ownsProject(actor, part)),
)
const callers = [administrator, installationOwner, partOwner]

const Step = t.Object({
  call: t.String({ maxLength: limits.nameCharsMax, description: 'a command that configures, such as identity/user.add' }),
  input: t.Object({}, { additionalProperties: true, description: 'its input' }),
})

const apply = command({
  name: 'config.apply',
  summary:
    'Change one part of the configuration, the installation or a project, in one commit: all steps or none. Each is allowed and checked as a call of its own.',
  draft: 'ours: identity',
  input: t.Object({
    name: ConfigName,
    part: ConfigPart,
    owns: Config.schema.properties.owns,
    steps: t.Array(Step, { maxItems: limits.configStepsMax }),
  }),
  output: t.Object({ config: Config.schema }),
  callers,
  requires: [],
  audit: 'config.applied',
  hides: true, // the address of a channel may hold a secret
  bodyBytesMax: limits.configBodyBytesMax,
  load: async (read, { name, part }) => ({ part, before: await read.raw(Config, `${name}/${part}`) }),
  decide({ before }, { name, part, owns, steps }, { actor, now }) {
    const config: Config = { id: `${name}/${part}`, name, part, owns, applied_by: actor.id, updated_at: now }
    const isSame = before !== null && canonical(before.owns) === canonical(owns)
    return { facts: isSame ? [] : [fact('config.applied', [image(Config, config)])], steps, output: { config: isSame ? before : config } }
  },
  example: {
    given: 'empty',
    as: 'admin',
    input: {
      name: 'company',
      part: 'installation',
      owns: ['person user_nora'],
      steps: [{ call: 'identity/user.add', input: { id: 'user_nora', name: 'Nora', project_id: null } }],
    },
  },
})

const list = query({
  name: 'config.list',
  summary: 'List what configuration files have set, in one part or in all.',
  draft: 'ours: identity',
  input: t.Object({ part: t.Optional(ConfigPart), ...pageInput }),
  output: t.Object({ items: t.Array(Config.schema), next_cursor: nextCursor }),
  callers,
  async load(read, input) {
    const { part } = input
    const [name, prefix] = part === undefined ? ['all', []] : ['part', [part]]
    const listed = await read.list(Config, name, [prefix], pageIn('config.list', input))
    return { part, listed, found: await Promise.all(listed.map(({ id }) => read.maybe(Config, id))) }
  },
  view({ listed, found }, input) {
    return pageOf(
      'config.list',
      input,
      listed,
      found.filter((config) => config !== null),
    )
  },
  example: { given: 'configured', as: 'admin', input: {} },
})

export const configOperations = [apply, list]
