// Groups of issuers, linked to groups of projects: who signs in with one is in the other, and has the role in the project that it gives.
import { system } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { command, freshProof, rule, type Change, type Made, type Read } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import { Errand, errand, errandDone } from '#kernel/log/errand.ts'
import { fact } from '../events.ts'
import { administrators, projectOwner } from '../access.ts'
import { groupDetail, groupingsOf, withGroupings } from '../groups.ts'
import {
  DEFAULT_PROJECT,
  GroupLink,
  groupLinkId,
  GroupName,
  IssuerUrl,
  Project,
  ProjectId,
  ProjectRole,
  SignedIn,
  User,
} from '../schema.ts'

const Claim = t.String({
  minLength: 1,
  maxLength: limits.groupClaimCharsMax,
  description: 'the group as the identity tokens of the issuer name it',
})
const place = { project_id: ProjectId, name: GroupName, issuer: IssuerUrl, claim: Claim }
const Link = t.Object({ ...place, role: ProjectRole })
type Place = { readonly project_id: string; readonly name: string; readonly issuer: string; readonly claim: string }

async function loadPlace(read: Read, { project_id, name, issuer, claim }: Place) {
  const project = await read(Project, project_id)
  const id = groupLinkId(issuer, claim)
  const link: GroupLink = (await read.raw(GroupLink, id)) ?? { id, issuer, claim, places: [] }
  const isHere = (one: GroupLink['places'][number]): boolean => one.project_id === project_id && one.name === name
  return { project, link, there: link.places.find(isHere) ?? null, others: link.places.filter((one) => !isHere(one)) }
}
type OfPlace = Awaited<ReturnType<typeof loadPlace>>

const SPREAD = 'identity/group.spread'
const spreadOf = (link: string, after?: string): string => `groups/${link}/${after === undefined ? 'now' : 'next'}`
/** People who have signed in already follow the link. */
const spread = (link: string, now: string, after?: string): Change =>
  errand(spreadOf(link, after), now, SPREAD, { link, ...(after === undefined ? {} : { after }) })

const link = command({
  name: 'group.link',
  summary: 'Put the people of a group of an issuer into a group of a project, by their sign-ins, with a role in the project.',
  draft: 'ours: identity',
  input: t.Object({
    ...place,
    role: t.Optional({ ...ProjectRole, description: 'the role in the project that it gives; member by default' }),
  }),
  output: t.Object({ link: Link }),
  isStep: true,
  callers: [...administrators, projectOwner],
  requires: [
    freshProof(),
    rule<OfPlace>(
      'QUOTA_EXCEEDED',
      `a group of an issuer is linked to at most ${limits.placesPerClaimMax} groups`,
      ({ others }) => others.length < limits.placesPerClaimMax,
      `this group of the issuer is linked to ${limits.placesPerClaimMax} groups, which is the most: unlink one first`,
    ),
  ],
  audit: 'group.linked',
  load: (read, input) => loadPlace(read, input),
  decide({ link: before, there, others }, { project_id, name, issuer, claim, role = 'member' }, { actor, now }) {
    const output = { link: { project_id, name, issuer, claim, role } }
    if (there?.role === role) return { facts: [], output }
    const next: GroupLink = { ...before, places: [...others, { project_id, name, role, linked_by: actor.id, at: now }] }
    const max = limits.linksPerGroupMax
    return {
      facts: [fact('group.linked', [image(GroupLink, next)], { detail: { project_id, name, role } })],
      puts: [spread(before.id, now)],
      atMost: [
        {
          doc: GroupLink,
          index: 'place',
          prefix: [project_id, name],
          max,
          message: `at most ${max} groups of issuers are linked to one group`,
        },
      ],
      output,
    }
  },
  example: {
    given: 'empty',
    as: 'admin',
    input: { project_id: DEFAULT_PROJECT, name: 'reviewers', issuer: 'https://login.example.com', claim: 'engineering' },
  },
})

const unlink = command({
  name: 'group.unlink',
  summary:
    'Stop putting the people of a group of an issuer into a group of a project: they lose the role that it gave, from the next call on.',
  draft: 'ours: identity',
  input: t.Object(place),
  output: t.Object({ link: Link }),
  isStep: true,
  callers: [...administrators, projectOwner],
  requires: [],
  audit: 'group.unlinked',
  load: (read, input) => loadPlace(read, input),
  decide({ link: before, there, others }, { project_id, name, issuer, claim }, { now }) {
    if (there === null) throw new Refusal('NOT_FOUND', `this group of the issuer is not linked to ${name}: group.list shows the links`)
    const next: GroupLink = { ...before, places: others }
    return {
      facts: [fact('group.unlinked', [image(GroupLink, next)], { detail: { project_id, name } })],
      puts: [spread(before.id, now)],
      output: { link: { project_id, name, issuer, claim, role: there.role } },
    }
  },
  example: {
    given: 'linkedGroup',
    as: 'admin',
    input: { project_id: DEFAULT_PROJECT, name: 'reviewers', issuer: 'https://login.example.com', claim: 'engineering' },
  },
})

const follow = command({
  name: 'group.spread',
  summary: 'Bring the people who signed in with a group of an issuer up to date with its links. The system calls it.',
  draft: 'ours: identity',
  input: t.Object({
    link: t.String({ maxLength: 100, description: 'the id of the link' }),
    after: t.Optional(t.String({ maxLength: 1_000, description: 'the place in the list of people to go on after' })),
  }),
  output: t.Object({ changed: t.Integer() }),
  callers: [system],
  requires: [],
  audit: 'user.grouped',
  async load(read, { link: id, after }) {
    const storedErrand = await read.raw(Errand, spreadOf(id, after))
    // Each person causes a look at each of their changed groups, and a batch has a bound.
    const places = (await read.raw(GroupLink, id))?.places.length ?? 1
    const limit = Math.max(1, Math.min(limits.groupSpreadMax, Math.floor(limits.consequencesMax / (3 + 3 * places))))
    const listed = await read.list(SignedIn, 'group', [[id]], { after, limit })
    const facts: Made[] = []
    for (const row of listed) {
      const signedIn = (await read.raw(SignedIn, row.id))!
      const groupings = await groupingsOf((one) => read.raw(GroupLink, one), signedIn)
      const user = (await read.raw(User, signedIn.user_id))!
      const next = withGroupings(
        user,
        (one) => one.link === id,
        groupings.filter((one) => one.link === id),
      )
      if (next !== null) facts.push(fact('user.grouped', [image(User, next.user)], { detail: groupDetail(next.changed) }))
    }
    return { storedErrand, facts, next: listed.length === limit ? listed.at(-1)!.at : null }
  },
  decide({ storedErrand, facts, next }, { link: id }, { now }) {
    const rest = next === null ? [] : [spread(id, now, next)]
    return { facts, puts: [...(storedErrand ? [errandDone(storedErrand.id)] : []), ...rest], output: { changed: facts.length } }
  },
  example: {
    given: 'linkedGroup',
    as: 'system',
    input: { link: groupLinkId('https://login.example.com', 'engineering') },
  },
})

export const groupOperations = [link, unlink, follow]
