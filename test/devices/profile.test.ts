// The profile of a board as operators write it: taken whole, or refused with the place that is not understood.
import { deepEqual, throws } from 'node:assert/strict'
import { it } from 'node:test'
import { readProfile } from '#devices/profile.ts'

const lamp = { '17': { name: 'LED', direction: 'out', safe: 0 } }

it('takes a wire to what is no line of the board: nothing reads it there', () => {
  deepEqual(readProfile({ gpio: lamp, wires: [[18, 27]] }).wires, [])
  deepEqual(readProfile({ gpio: { ...lamp, '18': { direction: 'in' } }, wires: [[17, 18]] }).wires, [[17, 18]])
})

it('refuses an interlock over a line that is not there: it would hold nothing', () => {
  throws(() => readProfile({ gpio: lamp, interlocks: [{ never: { '17': 1, '99': 1 } }] }), /there is no line 99 in gpio/)
})

it('names the place of a field that it does not know', () => {
  throws(() => readProfile({ gpio: { '17': { colour: 'red' } } }), /gpio\.17\.colour is unknown/)
})
