// Requirements of HACP and AAP on CAP, the layer below them, one row each.
import type { Requirement } from '../support/laws/requirements.ts'

const under =
  (clause: string) =>
  (id: string, text: string): Requirement => ({ id, clause, text })

const capability = under('Capability')
const reference = under('CapabilityRef')
const operations = under('Operations')
const manifest = under('CapabilityManifest')
const result = under('InvokeResult')
const errors = under('Errors')
const sources = under('Sources')
const layers = under('Inter-layer Contracts')

export const capRows: readonly Requirement[] = [
  capability('C-CAP-01', 'A capability is identified by (capability_id, version)'),
  capability('C-CAP-02', 'Kinds: tool and skill'),
  capability('C-CAP-03', 'A skill can always be seen as a set of tools plus a prompt'),
  reference('C-REF-01', 'CapabilityRef {capability_id, version} is the only form in which upper layers name a capability'),
  reference('C-REF-02', 'Upper layers never see its transport'),
  operations('C-OP-01', 'capability.list() -> [CapabilityManifest]'),
  operations('C-OP-02', 'capability.describe(id, version)'),
  operations('C-OP-03', 'capability.invoke(ref, input) -> InvokeResult'),
  manifest('C-MAN-01', 'capability_id, version, kind, name, description, input_schema (required), output_schema'),
  manifest('C-MAN-02', 'for skills also prompt_template, resources, required_permissions'),
  result('C-RES-01', 'ok, output, error, duration_ms'),
  result('C-RES-02', 'invoke has synchronous semantics (MUST), whatever happens below'),
  result('C-RES-03', 'Input is validated against input_schema before anything runs'),
  result('C-RES-04', 'Output is validated against output_schema where declared'),
  errors('C-ERR-01', 'NOT_FOUND'),
  errors('C-ERR-02', 'INVALID_INPUT'),
  errors('C-ERR-03', 'PERMISSION_DENIED'),
  errors('C-ERR-04', 'EXECUTION_FAILED'),
  errors('C-ERR-05', 'TIMEOUT'),
  sources('C-SRC-01', 'An MCP server is a source of tool capabilities as it is: tools/list gives list and describe'),
  sources('C-SRC-02', 'tools/call gives invoke'),
  layers('C-LAY-01', 'HACP never invokes a capability (HACP 0.1.0: MUST NOT)'),
  layers('C-LAY-02', "agents do, through AAP's runtime"),
  layers('C-LAY-03', 'AAP MUST NOT depend on the capability transport'),
]
