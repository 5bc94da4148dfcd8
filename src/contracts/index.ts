// The contracts that join the protocols of this installation.
import type { Contract } from '#kernel/declare/operation.ts'
import { collaborationToDelegation } from './collaboration-delegation.ts'
import { collaborationToExecution } from './collaboration-execution.ts'
import { collaborationContracts } from './collaboration.ts'
import { delegationToCollaboration } from './delegation-collaboration.ts'
import { delegationToHarness } from './delegation-harness.ts'
import { executionToCollaboration } from './execution-collaboration.ts'
import { executionToGate, gateToCollaboration, gateToExecution } from './gate-execution.ts'
import { harnessToCollaboration } from './harness-collaboration.ts'
import { harnessToDelegation } from './harness-delegation.ts'
import { executionToHarness, harnessToExecution } from './harness-execution.ts'
import { executionToExecution, identityToDelegation, identityToExecution } from './identity.ts'

export const contracts: readonly Contract[] = [
  // First, so that the end of a task is the last notification about it.
  ...collaborationToExecution,
  ...collaborationContracts,
  ...collaborationToDelegation,
  ...delegationToCollaboration,
  ...identityToDelegation,
  ...identityToExecution,
  ...executionToExecution,
  ...executionToCollaboration,
  ...gateToExecution,
  ...gateToCollaboration,
  ...executionToGate,
  ...harnessToExecution,
  ...harnessToCollaboration,
  ...harnessToDelegation,
  ...delegationToHarness,
  ...executionToHarness,
]
