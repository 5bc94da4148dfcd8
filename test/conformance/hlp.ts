// Every MUST of HLP 0.2.0-draft on any wire and of its additions to HACP, one row each, with the tests that show it.
import type { Shown } from './hxp.ts'

type Cited = readonly (readonly [string, string])[]
const under =
  (clause: string) =>
  (id: string, text: string, ...shown: Cited): Shown => ({ id, clause, text, shown })

const WIRE = 'bridges/hlp/http'
const MUSTS = 'bridges/hlp/musts'
const VOTES = 'protocols/collaboration/votes'
const SCOPES = 'protocols/collaboration/scopes'
const REVISION = 'protocols/collaboration/revision'
const objects = under('3.2 Objects')
const industrial = under('4.1 Industrial profile')
const callers = under('4.3 Preconditions')
const errors = under('6.2 Errors')
const versions = under('6.4 Versions')
const reviews = under('3.6 Reviews')

export const hlpRows: readonly Shown[] = [
  objects('L01', 'A scope is `*`, or a namespace and a target with one trailing `*`', [
    SCOPES,
    'a grant takes every scope of the grammar, bare words, and nothing else',
  ]),
  objects('L02', 'A trailing `*` is a prefix, and behind a colon it also covers paths', [SCOPES, 'a scope covers what the table says']),
  objects('L03', 'A matching active deny beats every allow', [SCOPES, 'the grants of a task decide as the table says']),
  objects(
    'L04',
    'Objects have the fields of the wire: `from`, `as`, arrays, RFC 3339, the two stamps',
    [WIRE, 'the flow of the reference client has these bytes'],
    [MUSTS, 'each object has the fields of its shape, times of RFC 3339, lists where lists belong, and the stamps'],
  ),
  objects('L17', 'A value of the ledger is data, and the last write of a key wins', [
    MUSTS,
    'the value of a ledger is data: it carries no stamps, and what is not there is null',
  ]),
  objects('L18', 'Words of closed lists are those of the lists', [MUSTS, 'words of closed lists are refused, and nothing changes']),
  industrial(
    'L05',
    'The revision rises by exactly one for each change, and for nothing else',
    [REVISION, 'a command raises the revision once, however many facts follow from it'],
    [MUSTS, 'each change raises the revision by one and leaves its event, and nothing else raises it'],
  ),
  industrial(
    'L06',
    'Another expected revision is CONFLICT before any effect',
    [REVISION, 'a caller with another revision, older or newer, is refused before anything happens'],
    [WIRE, 'a stale revision is CONFLICT, and a repeated key is answered as it was then'],
  ),
  industrial(
    'L07',
    'A key belongs to one task, and its repetition is the first answer, before preconditions and authority',
    [WIRE, 'a stale revision is CONFLICT, and a repeated key is answered as it was then'],
    [MUSTS, 'a repetition is answered before authority and preconditions, with the answer of its time'],
  ),
  industrial('L19', 'The same key with another operation is CONFLICT, and a refused call leaves no key', [
    MUSTS,
    'a key with another operation is CONFLICT, and a refused call leaves none',
  ]),
  industrial(
    'L20',
    'Each operation leaves its event; an event has a reducer and the hash of the one before',
    [WIRE, 'an event carries what a reader needs to rebuild its task'],
    [WIRE, 'the feed resumes after a number, for a client that keeps the record'],
    [MUSTS, 'each change raises the revision by one and leaves its event, and nothing else raises it'],
  ),
  reviews('L08', 'Only members vote, the principal must be listed too', [
    VOTES,
    'required reviewers vote and no others, the principal included',
  ]),
  reviews('L09', 'Rejection, then quorum, then changes, then pending', [
    VOTES,
    'votes come to the outcome of the table, for one, two and three reviewers and each quorum',
  ]),
  reviews('L10', 'A pending task rests under review', [
    VOTES,
    'a task rests under review until everybody required has approved, and each vote has an item of its own',
  ]),
  reviews('L11', 'A new version begins from nothing', [
    VOTES,
    'one wish for changes sends the work back, and the next version begins from nothing',
  ]),
  reviews('L12', 'Plans need one verdict and no membership', [VOTES, 'a plan needs one verdict, and no member']),
  errors(
    'L13',
    'Every error is the whole error object, with the statuses of the table',
    [WIRE, 'unknown, missing and misplaced params are INVALID_SPEC'],
    [WIRE, 'the bridge refuses what the reference lets pass'],
  ),
  errors('L14', 'The principal is who the credential says', [
    WIRE,
    'a principal in the header is compared with the credential, and never believed',
  ]),
  callers('L21', 'An operation is for its callers alone', [MUSTS, 'an actor without the right is refused, whatever the header says']),
  callers(
    'L22',
    'An operation needs the state of its precondition, and a resolved question what became of it',
    [MUSTS, 'a cancelled task leaves no question behind, and a replaced delivery cannot be reviewed'],
    [MUSTS, 'a rejection ends the run, and a reassigned question goes to another one'],
    [WIRE, 'the bridge refuses what the reference lets pass'],
  ),
  callers(
    'L23',
    'The steering log and the grants are appended to, and never changed',
    [WIRE, 'a task begins with the grants of its spec, and shows them'],
    [MUSTS, 'the steering log and the log of grants only grow'],
  ),
  versions('L15', 'No common version is VERSION_UNSUPPORTED, without a downgrade', [
    WIRE,
    'a request for other versions is refused before anything else is looked at',
  ]),
  versions('L16', 'Answers name their versions', [
    WIRE,
    'the version needs no credential, and every answer names the versions in its headers',
  ]),
]
