#!/usr/bin/env node
// Written for any Node, so that an old one gets a sentence instead of a syntax error.
import module from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'

const NODE_MIN = 24
if (Number(process.versions.node.split('.')[0]) >= NODE_MIN) {
  // Commands are short: most of their time would go into compiling. In a folder of the user's own: what others could write is not run.
  module.enableCompileCache(process.env.NODE_COMPILE_CACHE || join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'countersign'))
  try {
    await import('../src/apps/cli/main.ts')
  } catch (error) {
    if (process.argv[2] !== 'hook') throw error
    // Agents run a tool when its hook ends with 1.
    process.stderr.write(`countersign hook could not start: ${error.message}\n`)
    process.exit(2)
  }
} else {
  process.stderr.write(`countersign: Node.js ${NODE_MIN} or newer is needed; this is ${process.versions.node} (https://nodejs.org)\n`)
  // Agents run a tool when its hook ends with 1.
  process.exitCode = process.argv[2] === 'hook' ? 2 : 1
}
