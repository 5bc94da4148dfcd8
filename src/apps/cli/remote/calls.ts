// Calls of a remote: `call` and `callAny` are one function with two types.
import type { Remote } from './remote.ts'

export const callsBy = (callAny: Remote['callAny']): Pick<Remote, 'call' | 'callAny'> => ({ call: callAny as Remote['call'], callAny })
