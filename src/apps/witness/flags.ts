// The options of `countersign witness`, for its help and for the command line's.
export const witnessFlags = [
  { name: 'log', value: '<vkey>', help: 'the verifier key of a log to watch; may be given several times' },
  { name: 'name', value: '<name>', help: 'the name under which it signs, such as w.lab.example' },
  { name: 'data', value: '<folder>', help: 'where its key and its memory are; never restore it from a backup' },
  { name: 'port', value: '<number>', help: 'port to listen on; 0 takes a free one (default 0)' },
  { name: 'host', value: '<address>', help: 'address to listen on (default 127.0.0.1); put a proxy with TLS in front for others' },
] as const
