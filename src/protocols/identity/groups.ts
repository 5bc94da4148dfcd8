// Groups of issuers: the groups of projects that a person is in by their last sign-in, and the role that each gives. Links decide it, so that a
// person loses a role with the link, whatever their documents still say.
import { limits } from '#kernel/limits.ts'
import { groupLinkId, type GroupLink, type Grouping, type SignedIn, type User } from './schema.ts'

type Links = (id: string) => Promise<GroupLink | null>

const groupingsBy = ({ id, issuer, places }: GroupLink): Grouping[] =>
  places.map(({ project_id, name, role }) => ({ project_id, group: name, role, issuer, link: id }))

/** The groups in which a sign-in puts the person, by the links of the issuer's groups. */
export async function groupingsOf(links: Links, { issuer, groups }: Pick<SignedIn, 'issuer' | 'groups'>): Promise<Grouping[]> {
  const found = await Promise.all([...new Set(groups)].map((claim) => links(groupLinkId(issuer, claim))))
  return found.flatMap((link) => (link === null ? [] : groupingsBy(link)))
}

const nameOf = ({ link, project_id, group }: Grouping): string => `${link} ${project_id} ${group}`
const sortGroupings = (groupings: readonly Grouping[]): Grouping[] =>
  groupings.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1)).slice(0, limits.groupsPerPersonMax)

/** The person with these groups in place of those that `isReplaced` names; null: nothing changes. */
export function withGroupings(
  user: User,
  isReplaced: (grouping: Grouping) => boolean,
  next: readonly Grouping[],
): { readonly user: User; readonly changed: readonly Grouping[] } | null {
  const before = user.by_groups ?? []
  const by_groups = sortGroupings([...before.filter((one) => !isReplaced(one)), ...next])
  const textOf = (one: Grouping): string => `${nameOf(one)} ${one.role}`
  const [was, is] = [new Set(before.map(textOf)), new Set(by_groups.map(textOf))]
  const changed = [...before.filter((one) => !is.has(textOf(one))), ...by_groups.filter((one) => !was.has(textOf(one)))]
  return changed.length === 0 ? null : { user: { ...user, by_groups }, changed }
}

/** The person with the groups that links still give, in the role that they give now. */
export async function withLinksNow<U extends Pick<User, 'by_groups'>>(links: Links, user: U): Promise<U> {
  const { by_groups } = user
  if (by_groups === undefined || by_groups.length === 0) return user
  const found = await Promise.all([...new Set(by_groups.map(({ link }) => link))].map(links))
  const now = found.flatMap((link) => (link === null ? [] : groupingsBy(link)))
  return { ...user, by_groups: now.filter((one) => by_groups.some((had) => nameOf(had) === nameOf(one))) }
}

/** The groups and projects that a change is about, for the record. */
export const groupDetail = (changed: readonly Grouping[]) => ({
  groups: [...new Set(changed.map(({ project_id, group }) => `${project_id}/${group}`))].join(' '),
})
