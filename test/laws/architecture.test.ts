// The shape of the code: allowed imports between folders, forbidden modules of pure folders, and that the checker itself sees each offence.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { doors, layers, lockProblems, longFiles, problemsIn, protocolProblems } from '../support/laws/architecture.ts'
import { castProblems, castReasons } from '../support/laws/casts.ts'
import { packages, pageProblems } from '../support/laws/page.ts'
import { importsOf, scan } from '../support/laws/source.ts'

const root = join(import.meta.dirname, '../..')
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8')
const files = globSync('**/*', { cwd: join(root, 'src') })
const isPage = (file: string): boolean => file.startsWith('web/')
const sources = files.filter((file) => file.endsWith('.ts') && !isPage(file))
const pages = files.filter((file) => isPage(file) && /\.tsx?$/.test(file))

describe('the code', () => {
  test('every file keeps to the table of imports, and pure folders are pure', () => {
    assert.ok(sources.length > 50, 'the files were found')
    assert.deepEqual(
      sources.flatMap((path) => problemsIn(path, textOf(`src/${path}`))),
      [],
    )
  })

  test('the page talks through the SDK alone, makes no markup of a text, and is the only place for .tsx', () => {
    assert.ok(pages.length > 30, 'the files were found')
    assert.deepEqual(
      pages.flatMap((path) => pageProblems(path.slice('web/'.length), textOf(`src/${path}`))),
      [],
    )
    assert.deepEqual(
      files.filter((file) => file.endsWith('.tsx') && !isPage(file)),
      [],
    )
  })

  test('nothing that the page is made of is needed to run', () => {
    const { dependencies } = JSON.parse(textOf('package.json')) as { dependencies: Record<string, string> }
    assert.deepEqual(
      packages.filter((name) => Object.hasOwn(dependencies, name)),
      [],
    )
  })

  test('a protocol knows documents of another through a port alone, and never by a cast', () => {
    // A schema may say that its documents are seen by those who see the task.
    const isByName = (path: string): boolean => /\bkindOf\(['`]/.test(textOf(`src/${path}`)) && !/^protocols\/\w+\/schema\.ts$/.test(path)
    const isCast = (path: string): boolean => /\bread(?:\.\w+)?\((?:kindOf\(|\w+Doc\(\)).*?\) as /.test(textOf(`src/${path}`))
    assert.deepEqual(
      sources.filter((path) => path.startsWith('protocols/') && (isByName(path) || isCast(path))),
      [],
    )
  })

  test('every protocol has the same files and is listed', () => {
    assert.deepEqual(protocolProblems(files, textOf('src/protocols/index.ts')), [])
  })

  test('the lock file names no registry', () => {
    const lock = textOf('package-lock.json')
    assert.match(lock, /"lockfileVersion"/)
    assert.deepEqual(lockProblems(lock), [])
  })

  test('every folder of the table has its # name in package.json', () => {
    const { imports } = JSON.parse(textOf('package.json')) as { imports: Record<string, string> }
    for (const folder of Object.keys(layers)) assert.equal(imports[`#${folder}/*.ts`], `./src/${folder}/*.ts`)
  })

  test('the exceptions speak of files that exist or of packages that are not installed yet', () => {
    const { dependencies } = JSON.parse(textOf('package.json')) as { dependencies: Record<string, string> }
    for (const file of Object.keys(longFiles)) assert.ok(sources.includes(file), file)
    for (const { file, module } of doors) assert.ok(sources.includes(file) || !Object.hasOwn(dependencies, module), `${file} for ${module}`)
  })
})

/** Each row: a file, what it says, and what must be said about it. */
const offences: readonly (readonly [path: string, text: string, message: RegExp])[] = [
  ['kernel/a.ts', `import { x } from '#protocols/index.ts'`, /:1: kernel may import nothing else, not protocols/],
  ['kernel/a.ts', `import type { x } from '#stores/memory.ts'`, /kernel may import nothing else, not stores/],
  ['kernel/a.ts', `export { x } from '#apps/x.ts'`, /kernel may import nothing else, not apps/],
  ['kernel/a.ts', `export * from '#apps/x.ts'`, /kernel may import nothing else, not apps/],
  ['kernel/a.ts', `type X = import('#apps/x.ts').X`, /kernel may import nothing else, not apps/],
  ['kernel/a.ts', `const x = await import('node:fs')`, /node:fs may not be imported here; a pure folder is given what it needs/],
  ['kernel/a.ts', `const x = await import(name)`, /a computed import cannot be checked/],
  ['kernel/a.ts', `import 'node:fs'`, /node:fs may not be imported here/],
  ['kernel/a.ts', `const { readFileSync } = process.getBuiltinModule('node:fs')`, /node:fs may not be imported here/],
  ['workers/webhooks/post.ts', `const { request, get } = process.getBuiltinModule('node:http')`, /get/],
  ['workers/webhooks/post.ts', `const http = process.getBuiltinModule('node:http')`, /\*/],
  ['workers/a.ts', `process.getBuiltinModule('node:' + name)`, /a computed import cannot be checked/],
  ['kernel/a.ts', `import { b } from '#kernel/b.ts'`, /in the same folder: write a relative path/],
  ['kernel/a.ts', `import { b } from './b'`, /must end in \.ts/],
  ['kernel/a.ts', `import { b } from './b.js'`, /must end in \.ts/],
  [
    'kernel/a.ts',
    `import { hash } from 'node:crypto'`,
    /node:crypto may not be imported here; use what kernel\/log\/hash-chain\.ts exports/,
  ],
  [
    'kernel/log/hash-chain.ts',
    `import { hash, randomBytes } from 'node:crypto'`,
    /only hash, sign, verify.*not randomBytes; chance and keys are passed in/,
  ],
  ['kernel/log/hash-chain.ts', `import * as crypto from 'node:crypto'`, /not \*/],
  ['kernel/log/hash-chain.ts', `import all from 'node:crypto'`, /not default/],
  ['kernel/a.ts', `import Type from 'typebox'`, /use what kernel\/declare\/schema\.ts exports/],
  ['kernel/a.ts', `import canonicalize from 'canonicalize'`, /use what kernel\/log\/canonical-json\.ts exports/],
  ['kernel/declare/schema.ts', `import Ajv from 'ajv'`, /use what kernel\/declare\/foreign-schema\.ts exports/],
  ['protocols/one/a.ts', `import { RE2JS } from 're2js'`, /use what kernel\/foreign\/linear-pattern\.ts exports/],
  [
    'protocols/one/a.ts',
    `import { two } from '../two/index.ts'`,
    /protocols never import one another \(one -> two\); join them with a contract/,
  ],
  ['protocols/one/operations/a.ts', `import { list } from '../../index.ts'`, /protocols never import one another/],
  ['protocols/one/a.ts', `import { x } from '../../kernel/x.ts'`, /leaves the folder protocols: write #kernel\/x\.ts/],
  ['protocols/one/a.ts', `import { x } from '#contracts/index.ts'`, /protocols may import kernel, not contracts/],
  ['protocols/one/a.ts', `import { timingSafeEqual } from 'node:crypto'`, /node:crypto may not be imported here/],
  ['protocols/identity/authenticate.ts', `import { randomBytes } from 'node:crypto'`, /only timingSafeEqual of node:crypto/],
  ['contracts/a.ts', `import { x } from '#workers/outbox.ts'`, /contracts may import kernel, protocols, not workers/],
  ['stores/a.ts', `import { x } from '#protocols/index.ts'`, /stores may import kernel, not protocols/],
  ['stores/a.ts', `import { x } from 'mysql2'`, /mysql2 may not be imported here; a driver is a row in the table/],
  [
    'bindings/a.ts',
    `import { x } from '#protocols/identity/schema.ts'`,
    /bindings may import kernel, not protocols; a binding carries any operation/,
  ],
  ['bindings/a.ts', `import { x } from '../apps/config.ts'`, /leaves the folder bindings: write #apps\/config\.ts/],
  [
    'workers/a.ts',
    `import { x } from '#bindings/http/index.ts'`,
    /workers may import kernel, protocols, not bindings; pass it in from src\/apps/,
  ],
  ['sdk/a.ts', `import { x } from '#stores/memory.ts'`, /sdk may import kernel, protocols, not stores/],
  ['elsewhere/a.ts', '', /there is no rule for this folder/],
  ['kernel/a.ts', '\n\nconst at = Date.now()', /:3: Date\.now in a pure folder; take `now` from the context/],
  ['kernel/a.ts', 'const at = new Date()', /the current date in a pure folder/],
  ['kernel/a.ts', 'const at = new Date', /the current date in a pure folder/],
  ['kernel/a.ts', 'const at = Date()', /the current date in a pure folder/],
  ['kernel/a.ts', 'const now: () => number = Date.now', /Date\.now in a pure folder/],
  ['kernel/a.ts', 'const x = Math.random()', /Math\.random in a pure folder; take `newId` or `secret`/],
  ['protocols/one/a.ts', 'setTimeout(go, 5)', /setTimeout in a pure folder; a wait is a time at which a document is due/],
  ['protocols/one/a.ts', 'setInterval(go, 5)', /setInterval in a pure folder/],
  ['protocols/one/a.ts', 'const defer = setImmediate', /setImmediate in a pure folder/],
  ['contracts/a.ts', 'queueMicrotask(go)', /queueMicrotask in a pure folder/],
  ['contracts/a.ts', 'if (process.env.X) go()', /process in a pure folder; take the setting as a parameter/],
  ['contracts/a.ts', 'const { env } = process', /process in a pure folder/],
  ['contracts/a.ts', 'await fetch(url)', /fetch in a pure folder; record what shall happen/],
  ['kernel/a.ts', 'const id = crypto.randomUUID()', /crypto in a pure folder/],
  ['kernel/a.ts', 'const at = performance.now()', /performance in a pure folder/],
  ['kernel/a.ts', 'console.log(1)', /console in a pure folder/],
  ['kernel/a.ts', 'globalThis.fetch(url)', /globalThis in a pure folder/],
  ['kernel/a.ts', 'const text = `${Date.now()}`', /Date\.now in a pure folder/],
  ['apps/a.ts', 'enum Colour { red }', /an enum needs a compiler/],
  ['apps/a.ts', 'class A { constructor(private readonly x: number) {} }', /a parameter property needs a compiler/],
  ['apps/a.ts', 'class A { constructor(a: () => void, public x = 1) {} }', /a parameter property needs a compiler/],
  ['apps/a.ts', `// ${'TO' + 'DO'}: later`, /code carries no notes to self/],
  ['apps/a.ts', `/* ${'FIX' + 'ME'} */`, /code carries no notes to self/],
  ['apps/a.ts', 'x()\n'.repeat(451), /451 lines; split it by noun/],
  ['protocols/collaboration/schema.ts', 'x()\n', /1 lines fit again; take it off the list/],
]

/** Sources that look like an offence and are none. */
const innocents: readonly (readonly [path: string, text: string])[] = [
  ['kernel/a.ts', `import { b } from './b.ts'\nexport type { c } from './c.ts'`],
  ['kernel/log/hash-chain.ts', `import { hash, type Hash } from 'node:crypto'`],
  ['kernel/declare/schema.ts', `import Type, { type Static } from 'typebox'\nimport { Compile } from 'typebox/schema'`],
  ['protocols/one/operations/a.ts', `import { rule } from '../rules.ts'\nimport { x } from '#kernel/x.ts'`],
  ['protocols/index.ts', `import { one } from './one/index.ts'`],
  ['protocols/identity/authenticate.ts', `import { timingSafeEqual } from 'node:crypto'`],
  ['stores/a.ts', `import { DatabaseSync } from 'node:sqlite'\nconst at = Date.now()`],
  ['apps/a.ts', `import { startServer } from './server.ts'\nimport pino from 'pino'\nimport { x } from '#bindings/http/index.ts'`],
  ['kernel/a.ts', `// Date.now() is banned, and so is import 'node:fs'\nconst words = "Math.random() from 'node:fs'"`],
  ['kernel/a.ts', 'const x = `setTimeout(${a /* console.log() */} fetch(url)`'],
  ['kernel/a.ts', String.raw`const quote = /['"\/[\]/]/.test(text) ? 1 / 2 / 3 : "it's" + 'say \'fetch(url)\''`],
  ['kernel/a.ts', 'const at = new Date(ms).toISOString()\nconst ms = Date.parse(at)\nlet when: Date'],
  ['kernel/a.ts', `const bytes = Buffer.from('import')\nconst names = { process: 1, fetch: 2 }\nthis.fetch()`],
  ['apps/a.ts', 'class A { readonly x: number; constructor(x: number) { this.x = x } }\nconst node = { enum: [1] }'],
]

describe('the checker', () => {
  for (const [path, text, message] of offences) {
    test(`reports ${path}: ${text.trim().split('\n').at(-1)!.slice(0, 80)}`, () => {
      const problems = problemsIn(path, text)
      assert.ok(
        problems.some((problem) => message.test(problem)),
        `${message} among ${JSON.stringify(problems)}`,
      )
    })
  }
  for (const [path, text] of innocents) {
    test(`leaves ${path} alone: ${text.split('\n')[0]!.slice(0, 80)}`, () => assert.deepEqual(problemsIn(path, text), []))
  }

  test('it refuses to guess about a text that it cannot read', () => {
    assert.throws(() => scan(`const a = 'x`), /line 1: a string without an end/)
    assert.throws(() => scan('\nconst a = `x${b}'), /line 2: a template without an end/)
  })

  test('it finds every import of a real file', () => {
    const found = importsOf(scan(textOf('src/protocols/identity/authenticate.ts'))).map(({ specifier }) => specifier)
    assert.deepEqual(found, textOf('src/protocols/identity/authenticate.ts').match(/(?<=^import .* from ')[^']+/gm))
  })

  test('it misses neither a file of a protocol nor its line in the list', () => {
    const some = ['protocols/one/index.ts', 'protocols/one/schema.ts', 'protocols/one/codes.ts', 'protocols/one/README.md']
    assert.deepEqual(
      protocolProblems(some, '').map((problem) => problem.split(';')[0]),
      ['src/protocols/one: examples.ts is missing', 'src/protocols/one is not in the list of src/protocols/index.ts'],
    )
    assert.deepEqual(protocolProblems([...some, 'protocols/one/examples.ts'], `import { one } from './one/index.ts'`), [])
  })

  test('it sees an address in a lock file', () => {
    assert.match(lockProblems('{ "resolved": "https://registry.example/a.tgz" }')[0]!, /names https:\/\/registry\.example/)
  })
})

describe('casts', () => {
  test('no code overrules the compiler, but for a short list with reasons', () => {
    assert.deepEqual(
      [...sources, ...pages].map((path) => `src/${path}`).flatMap((path) => castProblems(path, textOf(path))),
      [],
    )
    assert.ok(Object.keys(castReasons).length <= 7, 'the list only shrinks')
  })

  test('the law sees casts and any, and neither in comments nor in texts', () => {
    for (const code of ['call(x as never)', 'const a = b as unknown as C', 'let a: any', 'f<any>()', 'x as any', '(a: string | any) => 1'])
      assert.equal(castProblems('src/sdk/a.ts', code).length, 1, code)
    for (const code of ['// as never', '/** any */', "say('as never')", 'AbortSignal.any([a])', 'it was never', 'any(1)'])
      assert.deepEqual(castProblems('src/sdk/a.ts', code), [])
    assert.deepEqual(castProblems('src/kernel/a.ts', 'let a: any'), [])
    const [path] = Object.keys(castReasons) as [string]
    assert.deepEqual(castProblems(path, 'x as never'), [])
    assert.equal(castProblems(path, 'x as never\ny as never').length, 1)
    assert.match(castProblems(path, '')[0]!, /take it out/)
  })
})

/** Each row: a file of the page, what it says, and what must be said about it. */
const pageOffences: readonly (readonly [path: string, text: string, message: RegExp])[] = [
  ['app/a.tsx', "// A.\nimport { x } from '#kernel/kernel.ts'", /the page talks through #sdk\/index\.ts alone/],
  ['app/a.tsx', "// A.\nimport { x } from 'lodash'", /lodash is no package of the page/],
  ['app/a.tsx', "// A.\nimport { x } from '../../sdk/client.ts'", /leaves src\/web/],
  ['app/a.tsx', '// A.\nconst a = <p dangerouslySetInnerHTML={{ __html: text }} />', /a text is a text node/],
  ['app/a.tsx', '// A.\nelement.innerHTML = text', /a text is a text node/],
  ['app/a.tsx', 'const a = 1', /its first line says what it is/],
]

describe('the law of the page sees', () => {
  for (const [path, text, message] of pageOffences)
    test(text.split('\n').at(-1), () => {
      assert.match(pageProblems(path, text).join('\n'), message)
    })
})
