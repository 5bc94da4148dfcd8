// Dialects of hooks: events in, exact answers out.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { agentNames, BadEvent, dialects, eventFrom, type Verdict } from '#bridges/hooks/dialects.ts'
import { recorded, shellOf } from './events.ts'

describe('dialects of hooks', () => {
  for (const { agent, what, event, tool, given } of recorded)
    it(`${agent} announces ${what} as ${tool}`, () => {
      const call = dialects[agent].read(eventFrom(event))!
      // Cursor names no server: the settings do.
      assert.equal(`${call.server ?? 'files'}/${call.tool}`, tool)
      assert.deepEqual(call.arguments, given)
    })

  it('a sub-agent is named', () => {
    assert.equal(dialects['claude-code'].read(eventFrom(recorded[1]!.event))?.subAgent, 'reviewer (a1)')
  })

  const answers: Readonly<Record<(typeof agentNames)[number], Readonly<Record<Verdict['kind'], string>>>> = {
    'claude-code': {
      allow: '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"why"}}\n',
      deny: '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"why"}}\n',
      ask: '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":"why"}}\n',
      defer: '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer","permissionDecisionReason":"why"}}\n',
    },
    codex: (() => {
      const deny = '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"why"}}\n'
      return { allow: '', deny, ask: deny, defer: deny }
    })(),
    gemini: (() => {
      const deny = '{"decision":"deny","reason":"why"}\n'
      return { allow: '{"decision":"allow","reason":"why"}\n', deny, ask: deny, defer: deny }
    })(),
    cursor: (() => {
      const deny = '{"permission":"deny","user_message":"why","agent_message":"why"}\n'
      return { allow: '{"permission":"allow"}\n', deny, ask: deny.replace('deny', 'ask'), defer: deny }
    })(),
    opencode: (() => {
      const deny = '{"decision":"deny","reason":"why"}\n'
      return { allow: '{"decision":"allow","reason":"why"}\n', deny, ask: deny, defer: deny }
    })(),
  }
  for (const agent of agentNames)
    for (const kind of ['allow', 'deny', 'ask', 'defer'] as const)
      it(`${agent} reads ${kind} as ${JSON.stringify(answers[agent][kind]).slice(0, 40)}`, () => {
        assert.equal(dialects[agent].answer({ kind, reason: 'why' }), answers[agent][kind])
      })

  for (const agent of agentNames)
    it(`${agent} gets a reason with every deny, and an answer that fits into a pipe`, () => {
      for (const reason of ['', ' ', '\0'.repeat(20_000)]) {
        const text = dialects[agent].answer({ kind: 'deny', reason })
        assert.ok(Buffer.byteLength(text) < 64 * 1024)
        assert.match(text, /"(?:permissionDecisionReason|reason|agent_message)":"[^"]+"/)
      }
    })

  for (const agent of agentNames) {
    it(`${agent} is silent for another event`, () => {
      assert.equal(dialects[agent].read({ ...shellOf(agent), hook_event_name: 'SessionStart' }), null)
    })
    for (const field of Object.keys(shellOf(agent)).filter((name) =>
      ['hook_event_name', 'tool_name', 'tool_input', 'command', 'tool', 'args'].includes(name),
    ))
      it(`${agent} refuses an event whose ${field} has another type`, () => {
        assert.throws(() => dialects[agent].read({ ...shellOf(agent), [field]: 7 }), BadEvent)
      })
  }

  for (const name of ['claude-code', 'Codex', 'gemini'])
    it(`an MCP server called ${name} cannot pass its tools off as an agent's own`, () => {
      assert.throws(
        () => dialects['claude-code'].read({ ...shellOf('claude-code'), tool_name: `mcp__${name}__Read` }),
        /has the name of an agent/,
      )
    })
})
