// Projects and their members; owners can create projects and change members.
import { useState } from 'react'
import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from 'wouter'
import { ActButton } from '../parts/act-button.tsx'
import { FormDialog } from '../parts/dialog.tsx'
import { Pick, Select, TextField } from '../parts/fields.tsx'
import { Icon } from '../parts/icon.tsx'
import { Page } from '../parts/page.tsx'
import { useProject } from '../parts/project.tsx'
import { Empty, Loaded } from '../parts/states.tsx'
import { plural } from '../parts/text.tsx'
import { Who, sortOf } from '../parts/who.tsx'
import { after, all, call, queries } from '../server/client.ts'
import { capital, useAgents, useMe, useNameOf, usePeople, useProjects } from '../server/names.ts'
import type { Agent, User } from '../server/types.ts'

type Role = 'owner' | 'member' | 'viewer'
const ROLES = [
  ['member', 'Member'],
  ['owner', 'Owner'],
  ['viewer', 'Viewer'],
] as const
type Project = NonNullable<ReturnType<typeof useProjects>['data']>[number]
const CHANGED = ['members', 'people', 'agents', 'projects', 'me'] as const
const lookAgain = (): void => CHANGED.forEach((key) => void queries.invalidateQueries({ queryKey: [key] }))

const useMembers = (project_id: string) =>
  useQuery({
    queryKey: ['members', project_id],
    async queryFn() {
      const [people, agents] = await Promise.all([
        all<User>((cursor) => call('identity/user.list', { project_id, limit: 200, ...after(cursor) })),
        all<Agent>((cursor) => call('identity/agent.list', { project_id, limit: 200, ...after(cursor) })),
      ])
      return [...people, ...agents.filter(({ id }) => id !== 'agent_system')]
    },
  })
/** The role that a member was given, and the roles that groups of an issuer give them. */
function roleIn(member: User | Agent, project_id: string): { readonly given: Role | null; readonly by: readonly string[] } {
  const isHere = (one: { readonly project_id: string }): boolean => one.project_id === project_id
  const by = 'by_groups' in member ? (member.by_groups ?? []).filter(isHere) : []
  return { given: member.projects.find(isHere)?.role ?? null, by: by.map(({ role, group }) => `${role} by ${group}`) }
}

function AddMember({ project, close }: { readonly project: Project; close(): void }) {
  const [subject, setSubject] = useState('')
  const [role, setRole] = useState<Role>('member')
  const there = new Set((useMembers(project.id).data ?? []).map(({ id }) => id))
  const known = [...(usePeople().data ?? []), ...(useAgents().data ?? [])]
  const choices = known.filter(({ id, disabled }) => !disabled && id !== 'agent_system' && !there.has(id))
  const add = useMutation({
    mutationFn: () =>
      call('identity/project.join', { project_id: project.id, subject, role: subject.startsWith('user_') ? role : 'member' }),
    onSuccess() {
      lookAgain()
      close()
    },
  })
  return (
    <FormDialog
      name="Add member"
      about={<bdi>{project.name}</bdi>}
      close={close}
      busy={add.isPending}
      error={add.error}
      blocked={subject === '' ? 'Choose a person or an agent.' : undefined}
      send={() => add.mutate()}
    >
      <Pick label="Person or agent" value={subject} onValue={setSubject} placeholder="Search by name" choices={choices} />
      {subject.startsWith('user_') && (
        <Select
          label="Role"
          value={role}
          onValue={(value) => setRole(value as Role)}
          options={ROLES}
          note="Owners see all of the project and change its members. Viewers see all of it and change nothing."
        />
      )}
    </FormDialog>
  )
}

function ChangeRole({ project, member, role }: { readonly project: Project; readonly member: User | Agent; readonly role: Role }) {
  const others = ROLES.filter(([other]) => other !== role)
  return others.map(([other, name]) => (
    <ActButton
      key={other}
      changes={CHANGED}
      act={() => call('identity/project.join', { project_id: project.id, subject: member.id, role: other })}
    >
      Make {name.toLowerCase()}
    </ActButton>
  ))
}

function RemoveMember({ project, member }: { readonly project: Project; readonly member: User | Agent }) {
  const [isOpen, setOpen] = useState(false)
  const remove = useMutation({
    mutationFn: () => call('identity/project.leave', { project_id: project.id, subject: member.id }),
    onSuccess() {
      lookAgain()
      setOpen(false)
    },
  })
  return (
    <>
      <button type="button" className="btn sm" onClick={() => setOpen(true)}>
        Remove
      </button>
      {isOpen && (
        <FormDialog
          name="Remove member"
          about={
            <>
              <bdi>{member.name}</bdi> from <bdi>{project.name}</bdi>
            </>
          }
          danger
          close={() => setOpen(false)}
          busy={remove.isPending}
          error={remove.error}
          send={() => remove.mutate()}
        >
          <p>They lose access to this project. Their work stays with them until it is reassigned.</p>
        </FormDialog>
      )}
    </>
  )
}

function Members({ project, mayChange }: { readonly project: Project; readonly mayChange: boolean }) {
  const members = useMembers(project.id)
  const nameOf = useNameOf()
  const [isAdding, setAdding] = useState(false)
  return (
    <>
      <Loaded from={members} what="The list of members">
        {(found) => (
          <ul className="rows">
            {found.map((member) => {
              const { given, by } = roleIn(member, project.id)
              const isPerson = sortOf(member.id) === 'person'
              return (
                <li key={member.id} data-testid="member-row" data-subject={member.id}>
                  <Who name={member.name} sort={sortOf(member.id)} />
                  <span className="two-lines">
                    <b>
                      <bdi>{capital(nameOf(member.id, member.name))}</bdi>
                    </b>
                    <span className="note mono">{member.id}</span>
                  </span>
                  {by.map((one) => (
                    <span className="chip line" key={one}>
                      {one}
                    </span>
                  ))}
                  {given !== null && <span className={given === 'owner' ? 'chip accent' : 'chip'}>{isPerson ? given : 'agent'}</span>}
                  {mayChange && isPerson && given !== null && <ChangeRole project={project} member={member} role={given} />}
                  {mayChange && given !== null && <RemoveMember project={project} member={member} />}
                </li>
              )
            })}
            {found.length === 0 && <li className="muted">Nobody is in this project.</li>}
          </ul>
        )}
      </Loaded>
      {mayChange && (
        <div className="row end pad">
          <button type="button" className="btn sm" onClick={() => setAdding(true)}>
            <Icon name="plus" />
            Add member
          </button>
        </div>
      )}
      {isAdding && <AddMember project={project} close={() => setAdding(false)} />}
    </>
  )
}

function ProjectCard({ project }: { readonly project: Project }) {
  const me = useMe().data
  const { choose } = useProject()
  const [isOpen, setOpen] = useState(false)
  const role = me?.projects.find(({ project_id }) => project_id === project.id)?.role ?? null
  const mayChange = role === 'owner' || me?.owner === true
  return (
    <section className="card project" data-testid="project-row" data-project-id={project.id} aria-label={project.name}>
      <header className="row">
        <Icon name="folder" />
        <span className="two-lines grow">
          <b>
            <bdi>{project.name}</bdi>
          </b>
          <span className="note mono">{project.id}</span>
        </span>
        <span className={role === 'owner' ? 'chip accent' : 'chip'}>{role === null ? 'not a member' : `you: ${role}`}</span>
        {role !== null && (
          <Link className="btn sm" href="/tasks" onClick={() => choose(project.id)}>
            Tasks
          </Link>
        )}
        <button type="button" className="btn sm" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Members
        </button>
      </header>
      {isOpen && <Members project={project} mayChange={mayChange} />}
    </section>
  )
}

function NewProject({ close }: { close(): void }) {
  const [name, setName] = useState('')
  const add = useMutation({
    mutationFn: () => call('identity/project.add', { name: name.trim() }),
    onSuccess() {
      lookAgain()
      close()
    },
  })
  return (
    <FormDialog
      name="New project"
      button="Create project"
      close={close}
      busy={add.isPending}
      error={add.error}
      blocked={name.trim() === '' ? 'Enter a name.' : undefined}
      send={() => add.mutate()}
    >
      <TextField label="Name" value={name} onChange={(event) => setName(event.target.value)} note="You become its owner." />
    </FormDialog>
  )
}

export default function ProjectsPage() {
  const projects = useProjects()
  const isChief = useMe().data?.owner === true
  const [isNew, setNew] = useState(false)
  return (
    <Page
      title="Projects"
      about="A project has its own members, tasks and record. Nobody outside of it sees anything in it."
      actions={
        isChief && (
          <button type="button" className="btn sm primary" onClick={() => setNew(true)}>
            <Icon name="plus" />
            New project
          </button>
        )
      }
    >
      <Loaded from={projects} what="The list of projects">
        {(found) =>
          found.length === 0 ? (
            <Empty icon="folder" tone="accent" title="You are in no project">
              <p>Ask an owner of this installation to add you to one.</p>
            </Empty>
          ) : (
            <>
              <p className="note">{plural(found.length, 'project')}</p>
              {found.map((project) => (
                <ProjectCard key={project.id} project={project} />
              ))}
            </>
          )
        }
      </Loaded>
      {isNew && <NewProject close={() => setNew(false)} />}
    </Page>
  )
}
