// Who may call what: one line an operation, one letter a caller. y: it is theirs; u: UNAUTHORIZED; n: NOT_FOUND, because for them
// it does not exist. Written by hand, so that a change of the code's roles shows here first.

export const columns = ['system', 'admin', 'owner', 'alice', 'rita', 'bob', 'mallory', 'devin', 'robin', 'spy', 'project'] as const

// alice is the principal, rita a reviewer, bob another member, owner owns the project and the installation, mallory owns another
// project, devin executes, robin is another agent of the project, spy one of another, project is the key of the project.
export const matrix: Readonly<Record<string, string>> = {
  //                                   system admin owner alice rita bob mallory devin robin spy project
  'collaboration/task.create': '         u      u     y     y    y   y     n      u     u    n    u',
  'collaboration/task.assign': '         u      u     u     y    u   n     n      n     n    n    u',
  'collaboration/task.start': '          u      u     u     u    u   n     n      y     n    n    u',
  'collaboration/task.cancel': '         y      u     u     y    u   n     n      u     n    n    u',
  'collaboration/task.complete': '       y      u     u     u    u   n     n      u     n    n    u',
  'collaboration/task.get': '            y      y     y     y    y   n     n      n     n    n    y',
  'collaboration/task.list': '           y      y     y     y    y   y     n      y     y    n    y',
  'collaboration/task.extend': '         u      u     u     y    u   n     n      n     n    n    u',
  'collaboration/task.overdue': '        y      u     u     u    n   n     n      u     n    n    u',
  'collaboration/reviewer.add': '        u      u     u     y    u   n     n      n     n    n    u',
  'collaboration/reviewer.remove': '     u      u     u     y    u   n     n      n     n    n    u',
  'collaboration/checkpoint.raise': '    u      u     u     u    u   n     n      y     n    n    u',
  'collaboration/checkpoint.resolve': '  u      u     u     y    y   n     n      u     n    n    u',
  'collaboration/checkpoint.expire': '   y      y     u     u    u   n     n      u     n    n    u',
  'collaboration/checkpoint.overdue': '  y      u     u     u    u   n     n      u     n    n    u',
  'collaboration/checkpoint.get': '      y      y     y     y    y   n     n      y     n    n    y',
  'collaboration/checkpoint.list': '     y      y     y     y    y   y     y      y     y    y    y',
  'collaboration/ownership.transfer': '  y      y     u     u    u   n     n      u     n    n    u',
  'collaboration/ownership.delegate': '  u      u     u     u    u   n     n      y     n    n    u',
  'collaboration/review.submit': '       u      u     u     y    y   n     n      u     n    n    u',
  'collaboration/review.comment': '      u      u     u     y    y   n     n      u     n    n    u',
  'collaboration/review.list': '         y      y     y     y    y   n     n      y     n    n    y',
  'collaboration/artifact.commit': '     u      u     u     u    u   n     n      y     n    n    u',
  'collaboration/artifact.get': '        y      y     y     y    y   n     n      y     n    n    y',
  'collaboration/artifact.reference': '  u      u     u     y    u   n     n      y     n    n    u',
  'collaboration/ledger.read': '         y      y     y     y    y   y     n      y     y    n    y',
  'collaboration/ledger.write': '        u      u     u     y    u   n     n      y     n    n    u',
  'collaboration/ledger.history': '      y      y     y     y    y   y     n      y     y    n    y',
  'collaboration/audit.query': '         y      y     y     y    y   n     n      y     n    n    y',
  'collaboration/audit.replay': '        y      y     y     y    y   n     n      y     n    n    y',
  'collaboration/audit.verify': '        y      y     y     u    u   u     n      u     u    n    y',
  //                                   system admin owner alice rita bob mallory devin robin spy project
  'identity/user.add': '                 y      y     y     u    u   u     n      u     u    n    u',
  'identity/user.get': '                 y      y     y     y    y   y     n      y     y    n    y',
  'identity/user.list': '                y      y     y     y    y   y     n      y     y    n    y',
  'identity/user.update': '              y      y     y     u    u   u     n      u     u    n    u',
  'identity/agent.add': '                y      y     y     y    u   u     n      u     u    n    u',
  'identity/agent.get': '                y      y     y     y    y   y     n      y     y    n    y',
  'identity/agent.list': '               y      y     y     y    y   y     n      y     y    n    y',
  'identity/agent.update': '             y      y     y     y    u   u     n      u     u    n    u',
  'identity/project.add': '              y      y     y     u    u   u     u      u     u    u    u',
  'identity/project.get': '              y      y     y     y    y   y     n      y     y    n    y',
  'identity/project.list': '             y      y     y     y    y   y     y      y     y    y    y',
  'identity/project.join': '             y      y     y     u    u   u     n      u     u    n    u',
  'identity/project.leave': '            y      y     y     u    u   u     n      u     u    n    u',
  'identity/key.issue': '                y      y     y     y    u   u     n      u     u    n    u',
  'identity/key.revoke': '               y      y     y     y    u   u     n      u     u    n    u',
  'identity/key.list': '                 y      y     y     y    u   u     n      u     u    n    u',
  'identity/login.issue': '              y      y     y     u    u   u     n      u     u    n    u',
  'identity/session.open': '             y      u     u     u    u   u     u      u     u    u    u',
  'identity/session.close': '            y      y     y     y    n   n     n      n     n    n    n',
  'identity/session.touch': '            y      u     u     u    n   n     n      n     n    n    n',
  'identity/session.list': '             u      u     y     y    y   y     y      u     u    u    u',
  'identity/me.get': '                   y      y     y     y    y   y     y      y     y    y    y',
}

export const letters = (row: string): string[] => row.trim().split(/\s+/)
