// Why a server does not start, in one sentence for its operator.
export class StartError extends Error {
  override name = 'StartError'
}
