#!/usr/bin/env node
// Written for any Node, so that an old one gets a sentence instead of a syntax error.
import module from 'node:module'

const NODE_MIN = 24
if (Number(process.versions.node.split('.')[0]) >= NODE_MIN) {
  // Commands are short: most of their time would go into compiling.
  module.enableCompileCache()
  await import('../src/apps/cli/main.ts')
} else {
  process.stderr.write(`countersign: Node.js ${NODE_MIN} or newer is needed; this is ${process.versions.node} (https://nodejs.org)\n`)
  process.exitCode = 1
}
