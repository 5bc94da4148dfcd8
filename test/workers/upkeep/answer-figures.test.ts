// Answers in /metrics, with several servers: each counts those that it committed, so the sum over servers is the number of answers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoryDisk, memoryStore } from '#stores/memory.ts'
import { createAnswerFigures } from '#workers/upkeep/answer-figures.ts'
import { createWorld } from '#test/support/in-process/world.ts'

test('each of two servers on one store counts the answers that it committed', async () => {
  const disk = memoryDisk()
  const figures = [createAnswerFigures(), createAnswerFigures()]
  const stores = figures.map((one) => one.countIn(memoryStore({ disk, isShared: true })))
  const first = await createWorld({ store: stores[0]! })
  const second = await createWorld({ store: stores[1]!, populated: false, seed: 2 })
  const ask = async (): Promise<string> => {
    const payload = { item: 'Deploy', details: {} }
    const { request } = (await first.call('devin', 'execution/request.create', { action: 'APPROVE', payload })) as {
      request: { id: string }
    }
    return request.id
  }
  const answers = [
    [first, 'approved'],
    [second, 'approved'],
    [second, 'rejected'],
  ] as const
  for (const [world, result] of answers) await world.call('alice', 'execution/request.resolve', { request_id: await ask(), result })
  const countedBy = (one: (typeof figures)[number]): string[] =>
    one.lines().filter((line) => /^countersign_(answers_total|decision_seconds_count)/.test(line))
  assert.deepEqual(figures.map(countedBy), [
    ['countersign_answers_total{result="approved"} 1', 'countersign_decision_seconds_count 1'],
    [
      'countersign_answers_total{result="approved"} 1',
      'countersign_answers_total{result="rejected"} 1',
      'countersign_decision_seconds_count 2',
    ],
  ])
})
