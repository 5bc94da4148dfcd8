// AAP 0.1.0, sentence for sentence. The tests are in the files below, by section; here they are compared with the rows.
import { aap } from './aap-cited.ts'
import './aap-agents.ts'
import './aap-runs.ts'
import './aap-contracts.ts'
import './aap-messages.ts'
import './aap-taken.ts'
import './aap-seen.ts'
import './aap-places.ts'

aap.assertAllCited()
