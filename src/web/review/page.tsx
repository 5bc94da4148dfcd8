// One review: the versions, the difference file by file, comments as drafts, and the verdict.
import { useEffect, useMemo, useState, type ReactNode } from 'react'
import { useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { useCommands } from '../app/commands.ts'
import { Select } from '../parts/fields.tsx'
import { Icon } from '../parts/icon.tsx'
import { Empty, Failed, Skeleton } from '../parts/states.tsx'
import { bytesOf, Said } from '../parts/text.tsx'
import { Ago } from '../parts/time.tsx'
import { call, queries } from '../server/client.ts'
import { useDraft } from '../server/drafts.ts'
import { followLive, steadily } from '../server/live.ts'
import { capital, useMe, useNameOf, useReadsOnly } from '../server/names.ts'
import { Agreed, useArtifacts } from '../tasks/side.tsx'
import { isOver, titleOf } from '../tasks/states.ts'
import type { Task } from '../server/types.ts'
import type { Content } from './bytes.ts'
import type { DraftComment, MadeComment } from './comments.tsx'
import { MadeRemark } from './comments.tsx'
import { filesOf, useContent } from './deliverable.ts'
import { anchorOf, Counts, FileDiff, type View } from './diff-view.tsx'
import type { DiffFile } from './diff.ts'
import { DownloadButton } from './download.tsx'
import { Verdicts, type Reviewed } from './history.tsx'
import { VerdictPanel } from './verdict.tsx'

type Remarks = { readonly reviews: readonly Reviewed[]; readonly comments: readonly MadeComment[] }
function useReviews(task: string): Remarks {
  const reviews = useQuery({
    queryKey: ['task', task, 'reviews'],
    queryFn: () => call('collaboration/review.list', { task_id: task, limit: 100 }),
  }).data
  return useMemo(() => {
    if (!reviews) return { reviews: [], comments: [] }
    const within = reviews.items.flatMap(({ comments, reviewer, at, artifact_version }) =>
      comments.map((comment) => ({ ...comment, by: reviewer, at, version: artifact_version })),
    )
    const comments = [...within, ...reviews.comments.map(({ artifact_version, ...comment }) => ({ ...comment, version: artifact_version }))]
    return { reviews: reviews.items, comments }
  }, [reviews])
}

function FileTree({
  files,
  viewed,
  at,
  go,
}: {
  readonly files: readonly DiffFile[]
  readonly viewed: readonly string[]
  readonly at: number
  go(index: number): void
}) {
  return (
    <aside className="files" aria-label="Files">
      <h2 className="h">
        Files{' '}
        <span className="note">
          {files.filter(({ name }) => viewed.includes(name)).length} of {files.length} viewed
        </span>
      </h2>
      <ul>
        {files.map((file, i) => {
          const { name } = file
          const slash = name.lastIndexOf('/')
          return (
            <li key={name} aria-current={i === at ? 'true' : undefined}>
              <button type="button" onClick={() => go(i)}>
                <Icon name={viewed.includes(name) ? 'check' : 'file'} />
                <span className="grow">
                  <b className="clip">{name.slice(slash + 1)}</b>
                  {slash > 0 && <span className="clip">{name.slice(0, slash)}</span>}
                </span>
                <Counts file={file} />
              </button>
            </li>
          )
        })}
      </ul>
    </aside>
  )
}

function Elsewhere({ content }: { readonly content: Content }) {
  const { artifact, image, why } = content
  if (image !== null)
    return (
      <figure className="file picture">
        <img src={image} alt={`What was delivered: ${artifact.type}`} />
      </figure>
    )
  return (
    <Empty
      icon={content.isVerified === false ? 'alert' : 'file'}
      tone={content.isVerified === false ? 'bad' : 'accent'}
      title={content.isVerified === false ? 'The bytes do not match the record' : 'It is not shown here'}
      alert={content.isVerified === false}
    >
      <p>{why}</p>
      {artifact.payload.verified && content.isVerified !== false && (
        <DownloadButton artifact_id={artifact.id} version={artifact.version} message />
      )}
    </Empty>
  )
}

export default function ReviewPage({ task: id }: { readonly task: string }) {
  const task = useQuery({ queryKey: ['task', id], queryFn: async () => (await call('collaboration/task.get', { task_id: id })).task })
  const artifacts = useArtifacts(id)
  useEffect(
    () =>
      followLive(
        'collaboration/audit.follow',
        { task_id: id },
        steadily(() => queries.invalidateQueries({ queryKey: ['task', id] })),
      ),
    [id],
  )
  if ((task.error && !task.data) || (artifacts.error && !artifacts.data))
    return (
      <div className="page">
        <h1 className="sr">Review</h1>
        <Failed
          what="This review"
          thing="review"
          back="/reviews"
          error={task.error ?? artifacts.error}
          again={() => void Promise.all([task.refetch(), artifacts.refetch()])}
        />
      </div>
    )
  if (!task.data || !artifacts.data) return <Skeleton />
  const artifact = artifacts.data.find(({ id }) => id === task.data.delivered?.artifact_id) ?? artifacts.data.at(-1)
  if (!artifact)
    return (
      <div className="page">
        <h1 className="sr">Review</h1>
        <Empty icon="file" tone="accent" title="Nothing was delivered yet">
          <Link className="btn sm" href={`/tasks/${id}`}>
            To the task
          </Link>
        </Empty>
      </div>
    )
  // A new delivery starts a new review: choices for the former one do not apply.
  return <Delivered key={artifact.delivered ?? artifact.version} task={task.data} artifact={artifact} />
}

function doneMessage(task: Task, reviews: readonly Reviewed[]): string {
  if (task.outcome === 'cancelled') return 'The task was cancelled.'
  if (isOver(task)) return reviews.length === 0 ? 'The task has ended without a review.' : 'The review is closed.'
  return reviews.at(-1)?.verdict === 'changes_requested' ? 'The agent works on the changes.' : 'It is not waiting for a review.'
}

type Listed = NonNullable<ReturnType<typeof useArtifacts>['data']>[number]
const optionOf = ({ version }: { readonly version: string }): readonly [string, string] => [version, version]
const comparisons = ({ versions }: Listed, shown: string): [string, string][] => [
  ['', 'No comparison'],
  ...versions.filter(({ version }) => version !== shown).map(({ version }): [string, string] => [version, `against ${version}`]),
]
const isWaitingFor = ({ state }: Task): boolean => state === 'review_ready' || state === 'under_review'

type HeaderProps = {
  readonly task: Task
  readonly artifact: Listed
  readonly version: string
  readonly isVerified: boolean
  readonly children: ReactNode
}
function ReviewHeader({ task, artifact, version, isVerified, children }: HeaderProps) {
  const nameOf = useNameOf()
  const produced = artifact.versions.find((entry) => entry.version === version)
  return (
    <header>
      <div className="row head">
        <div className="grow">
          <div className="crumb">
            <Link href="/reviews">Reviews</Link>
            <Icon name="chevron" />
            <Link href={`/tasks/${task.id}`}>
              <bdi className="clip">{titleOf(task.spec.goal).title}</bdi>
            </Link>
          </div>
          <h1>
            <bdi>{capital(artifact.type)}</bdi> <span className="mono">{version}</span> by{' '}
            {produced ? nameOf(produced.actor, produced.actor_name) : '?'}
          </h1>
          <div className="meta">
            {isVerified && (
              <span className="chip ok">
                <Icon name="check" />
                bytes verified
              </span>
            )}
            {produced !== undefined && (
              <>
                <span className="chip">{produced.kind}</span>
                <span className="chip">{bytesOf(produced.payload.size)}</span>
                <span className="chip">
                  delivered <Ago at={produced.produced_at} />
                </span>
              </>
            )}
          </div>
        </div>
        <div className="row wrap actions">
          {children}
          <DownloadButton artifact_id={artifact.id} version={version} message />
        </div>
      </div>
    </header>
  )
}

function ViewSwitch({ view, setView }: { readonly view: View; setView(view: View): void }) {
  return (
    <fieldset className="seg" aria-label="Diff view">
      {(['unified', 'split'] as const).map((name) => (
        <label key={name} className={view === name ? 'on' : undefined}>
          <input
            type="radio"
            className="over"
            name="diff-view"
            aria-label={capital(name)}
            checked={view === name}
            onChange={() => setView(name)}
          />
          {capital(name)}
        </label>
      ))}
    </fieldset>
  )
}

/** The panel beside a deliverable that this person cannot review. */
function NoVerdict({ task, reviews, delivered, isOlder }: NoVerdictProps) {
  const isWaiting = isWaitingFor(task)
  return (
    <aside className="verdict" aria-label="Your review">
      <Agreed criteria={task.spec.acceptance_criteria} />
      <Verdicts title={isWaiting ? 'Requested before' : 'Verdict'} task_id={task.id} reviews={reviews} />
      <p className="muted">
        {isWaiting && isOlder ? (
          <>
            This is an older version. <Said mono>{delivered}</Said> is the one to review.
          </>
        ) : isWaiting ? (
          'It waits for the people of the task.'
        ) : (
          doneMessage(task, reviews)
        )}
      </p>
    </aside>
  )
}
type NoVerdictProps = {
  readonly task: Task
  readonly reviews: readonly Reviewed[]
  readonly delivered: string
  readonly isOlder: boolean
}

/** Comments on lines that the shown version does not have. */
function Unplaced({ comments, files }: { readonly comments: readonly MadeComment[]; readonly files: readonly DiffFile[] }) {
  const anchors = new Set(files.flatMap((file) => file.lines.map((line) => anchorOf(file, files.length === 1, line))))
  const unplaced = comments.filter(({ anchor }) => anchor === undefined || !anchors.has(anchor))
  if (unplaced.length === 0) return null
  return (
    <section className="block" aria-label="Earlier comments">
      <h2 className="h">Comments on lines that no longer exist</h2>
      {unplaced.map((comment, i) => (
        <MadeRemark key={i} comment={comment} />
      ))}
    </section>
  )
}

/** The files of one version against another. */
function useFiles(artifact_id: string, version: string, base: string) {
  const content = useContent(artifact_id, version)
  const before = useContent(artifact_id, base === '' ? null : base)
  const isLoaded = content.data !== undefined && (base === '' || before.data !== undefined || before.error !== null)
  const files = useMemo(
    () => (isLoaded && content.data ? filesOf(content.data, base === '' ? null : (before.data ?? null)) : []),
    [isLoaded, content.data, before.data, base],
  )
  return { content, isLoaded, files }
}

function Delivered({ task, artifact }: { readonly task: Task; readonly artifact: Listed }) {
  const me = useMe().data?.id ?? ''
  const delivered = artifact.delivered ?? artifact.version
  const [version, setVersion] = useState(delivered)
  const parent = artifact.versions.find((entry) => entry.version === version)?.parent_version ?? ''
  const [against, setAgainst] = useState<string | null>(null)
  const base = against ?? parent
  const { content, isLoaded, files } = useFiles(artifact.id, version, base)
  const [view, setView] = useState<View>('unified')
  const [drafts, setDrafts, clear] = useDraft<readonly DraftComment[]>(`comments/${task.id}/${version}`, [])
  const [viewed, setViewed] = useDraft<readonly string[]>(`viewed/${task.id}/${version}`, [])
  const [at, setAt] = useState(0)
  const { reviews, comments } = useReviews(task.id)
  const go = (index: number): void => {
    const to = Math.max(0, Math.min(files.length - 1, index))
    setAt(to)
    document.getElementById(`file-${files[to]?.name}`)?.scrollIntoView({ block: 'start' })
  }
  const toggle = (name: string, on: boolean): void =>
    setViewed(on ? [...new Set([...viewed, name])] : viewed.filter((file) => file !== name))
  useCommands([
    { title: 'Next file', keys: ['n'], group: 'Page', run: () => go(at + 1) },
    { title: 'Previous file', keys: ['b'], group: 'Page', run: () => go(at - 1) },
    { title: 'File viewed', keys: ['v'], group: 'Page', run: () => files[at] && toggle(files[at].name, !viewed.includes(files[at].name)) },
  ])
  const readsOnly = useReadsOnly(task.project_id)
  const mayReview =
    !readsOnly && isWaitingFor(task) && version === delivered && (task.ownership.principal === me || task.reviewers.includes(me))
  return (
    <div className="page">
      <ReviewHeader task={task} artifact={artifact} version={version} isVerified={content.data?.isVerified === true}>
        <Select compact label="Version" value={version} onValue={setVersion} options={artifact.versions.map(optionOf)} />
        <Select compact label="Compare with" value={base} onValue={setAgainst} options={comparisons(artifact, version)} />
        {files.length > 0 && <ViewSwitch view={view} setView={setView} />}
      </ReviewHeader>
      <div className={`cols review-cols${files.length === 0 ? ' no-files' : ''}`} data-testid="review-page" data-task-id={task.id}>
        {files.length > 0 && <FileTree files={files} viewed={viewed} at={at} go={go} />}
        <div className="diffs">
          {content.error ? (
            <Failed what="What was delivered" error={content.error} again={() => void content.refetch()} />
          ) : (
            !isLoaded && <Skeleton />
          )}
          {isLoaded && content.data && files.length === 0 && <Elsewhere content={content.data} />}
          {files.map((file) => (
            <FileDiff
              key={file.name}
              file={file}
              isOnly={files.length === 1}
              view={view}
              isViewed={viewed.includes(file.name)}
              comments={comments}
              drafts={drafts}
              setViewed={(on) => toggle(file.name, on)}
              add={(draft) => setDrafts([...drafts, draft])}
              remove={(id) => setDrafts(drafts.filter((draft) => draft.id !== id))}
            />
          ))}
          <Unplaced comments={comments} files={files} />
        </div>
        {mayReview && content.data ? (
          <VerdictPanel
            task={task}
            artifact={content.data.artifact}
            drafts={drafts}
            isVerified={content.data.isVerified === true}
            clear={clear}
            earlier={<Verdicts title="Requested before" task_id={task.id} reviews={reviews} />}
          />
        ) : (
          <NoVerdict task={task} reviews={reviews} delivered={delivered} isOlder={version !== delivered} />
        )}
      </div>
    </div>
  )
}
