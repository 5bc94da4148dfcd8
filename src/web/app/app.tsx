// The routes of the page. Each further page is a separate chunk.
import { lazy, Suspense, useEffect } from 'react'
import { Redirect, Route, Switch } from 'wouter'
import { InboxPage } from '../inbox/page.tsx'
import { Skeleton } from '../parts/states.tsx'
import { lookForSession, session } from '../server/client.ts'
import { goLive, noteSilence } from '../server/live.ts'
import { useMe, WithNames } from '../server/names.ts'
import { UndoToast } from '../decide/undo.tsx'
import { ErrorToasts } from './error-toast.tsx'
import { NewVersion } from './new-version.tsx'
import { OtherPerson } from '../session/other-person.tsx'
import { NotFound } from './not-found.tsx'
import { Shell } from './shell.tsx'
import { SignedOut } from '../session/signed-out.tsx'

const TasksPage = lazy(() => import('../tasks/list.tsx'))
const NewTaskPage = lazy(() => import('../tasks/create.tsx'))
const TaskPage = lazy(() => import('../tasks/page.tsx'))
const ReviewsPage = lazy(() => import('../review/list.tsx'))
const ReviewPage = lazy(() => import('../review/page.tsx'))
const AgentsPage = lazy(() => import('../agents/page.tsx'))
const GrantsPage = lazy(() => import('../grants/page.tsx'))
const RecordPage = lazy(() => import('../record/page.tsx'))
const WhyPage = lazy(() => import('../record/why.tsx'))
const InsightPage = lazy(() => import('../insight/page.tsx'))
const ProjectsPage = lazy(() => import('../projects/page.tsx'))
const SettingsPage = lazy(() => import('../settings/page.tsx'))

export function App() {
  const { isOut, isProofNeeded, other } = session.use()
  const me = useMe()
  const myId = me.data?.id
  useEffect(() => {
    if (isOut || myId === undefined) return undefined
    return goLive()
  }, [isOut, myId])
  useEffect(() => {
    if (me.error && myId === undefined) noteSilence()
  }, [me.error, myId])
  useEffect(() => {
    if (!isOut) return undefined
    // A login link opened in another tab also signs this tab in.
    const look = (): void => void lookForSession().catch(() => undefined)
    addEventListener('focus', look)
    return () => removeEventListener('focus', look)
  }, [isOut])
  if (isOut && me.data === undefined) return <SignedOut />
  return (
    <WithNames>
      <Shell>
        <Suspense fallback={<Skeleton />}>
          <Routes />
        </Suspense>
      </Shell>
      {isOut && other === null && <SignedOut isOver />}
      {isProofNeeded && !isOut && other === null && <SignedOut isOver isProof />}
      {other !== null && <OtherPerson name={other} />}
      <UndoToast />
      <ErrorToasts />
      <NewVersion />
    </WithNames>
  )
}

function Routes() {
  return (
    <Switch>
      <Route path="/">
        <Redirect to={`/inbox${location.search}`} replace />
      </Route>
      <Route path="/inbox">
        <InboxPage id={null} />
      </Route>
      <Route path="/inbox/:id">{({ id }) => <InboxPage id={id} />}</Route>
      <Route path="/tasks" component={TasksPage} />
      <Route path="/tasks/new" component={NewTaskPage} />
      <Route path="/tasks/:id">{({ id }) => <TaskPage key={id} id={id} />}</Route>
      <Route path="/reviews" component={ReviewsPage} />
      <Route path="/reviews/:task">{({ task }) => <ReviewPage key={task} task={task} />}</Route>
      <Route path="/agents" component={AgentsPage} />
      <Route path="/grants" component={GrantsPage} />
      <Route path="/record" component={RecordPage} />
      <Route path="/record/why/:id">{({ id }) => <WhyPage key={id} id={decodeURIComponent(id)} />}</Route>
      <Route path="/insight" component={InsightPage} />
      <Route path="/projects" component={ProjectsPage} />
      <Route path="/settings">
        <Redirect to="/settings/profile" replace />
      </Route>
      <Route path="/settings/:part">{({ part }) => <SettingsPage part={part} />}</Route>
      <Route component={NotFound} />
    </Switch>
  )
}
