// The HACP hardware draft, sentence for sentence. The tests are in the files below, by section; here they are compared with the rows.
import { hardware } from './hacp-hardware-cited.ts'
import './hacp-hardware-wire.ts'
import './hacp-hardware-tasks.ts'
import './hacp-hardware-guards.ts'

hardware.assertAllCited()
