// The error of a server that does not start, in one sentence for its operator.
export class StartError extends Error {
  override name = 'StartError'
}
