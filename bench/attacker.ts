// One of the attacks of the tests, as a process of its own: `attacker.ts <number> <port> <key>`. Says when all of it was sent, and ends with
// its input.
import { attacks } from '#test/support/faults/attack.ts'

const [number, port, devin] = process.argv.slice(2) as [string, string, string]
const { end } = await attacks[Number(number)]!.run({ port: Number(port), devin })
console.log('sent')
process.stdin.resume().once('end', () => {
  end()
  process.exit(0)
})
