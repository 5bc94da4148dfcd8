// Our decisions about HACP, row by row. The tests stand in the files below; here they are compared with the rows.
import { decisions } from './decisions-cited.ts'
import './decisions-checkpoint.ts'
import './decisions-questions.ts'
import './decisions-grants.ts'
import './decisions-versions.ts'
import './decisions-routing.ts'
import './decisions-time.ts'
import './decisions-work.ts'
import './decisions-ownership.ts'
import './decisions-record.ts'
import './decisions-control.ts'
import './decisions-substitutes.ts'
import './decisions-agents.ts'
import './decisions-family.ts'
import './decisions-runs.ts'
import './decisions-capabilities.ts'

decisions.assertAllCited()
