// The verbs of commit subjects: a subject is a command to the code, and its first word is one of these. Add a verb when a commit needs it.

export const verbs: ReadonlySet<string> = new Set(
  `accept act adapt add admit adopt align allow anchor answer apply approve arrange ask assert assign authenticate authorize await
  batch begin bind block bound break bring build bump cache call cancel cap carry change charge check choose cite claim clean clear
  close collect combine commit compare complete compress compute conclude configure confirm connect convert copy correct count cover create
  credit cut deal decide declare decline decode dedupe default defer define delay delegate delete deliver demand deny deprecate
  derive describe detect disable disconnect document download drain drop echo embed emit enable encode encrypt end enforce ensure
  erase escape estimate evict examine exclude execute exempt exit expect expire explain export expose extend extract fail fence
  fetch fill filter find finish fit fix flush fold follow forbid forget format forward free freeze fuzz gather generate get give go grant
  group guard halt hand handle hash heal hide hint hold honor ignore implement import improve include increase index infer inject
  inline insert inspect install introduce invert invoke isolate issue join judge keep know label lead learn leave let lift limit
  link list listen load localize locate lock log look loosen lower make map mark match measure mend merge migrate mirror model move
  name narrow negotiate nest normalize note notice notify number observe offer omit open order outline own pack page parse pass
  patch pause pay permit pick pin place plan plant play poll pool port postpone prefer prepare preserve prevent print probe process
  promote prompt propagate protect prove provide prune publish pull push put query queue quote raise rank rate ration reach read
  reassign rebuild recheck recognize reconcile reconnect record recover redact redeliver redirect reduce refactor refer refetch
  refresh refuse regenerate register reject relate relax release rely remember remove rename render reopen reorder repair repeat
  replace replay reply report request require rerun reserve reset resolve respect respond rest restart restore restrict resume
  retire retry return reuse reveal review revoke rework rewrite root rotate round route run sample save say scan schedule scope seal
  search see seed select send separate serve set settle share shorten show shrink shut sign simplify simulate skip sleep slice
  snapshot snooze sort spare spawn speak specify speed spell spend split spread stabilize stage start state stop store stream
  strengthen strip submit subscribe substitute summarize supply support suppress suspend swallow swap switch tag take teach tell
  terminate test throttle throw tidy tighten time tolerate trace track transfer translate trim trust try tune turn type unblock undo
  unify uninstall unlink unlock unpack unwrap update upgrade upload use validate vary verify void vote wait wake walk warn watch weigh
  widen wire withdraw withhold word work wrap write yield`.split(/\s+/),
)
