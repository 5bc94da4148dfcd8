#!/bin/sh
# An agent that is a shell script. It reads one JSON line for each message and prints one for each thing that it wants:
#
#   countersign agent run -- sh examples/shell-agent.sh
#
# It may be started anew at any time, also days later, while a person thinks: it is then told the run again, and `ask` is answered at
# once with what the person has said.
read -r run || exit 1
goal=$(printf '%s\n' "$run" | sed -En 's/.*"goal":"(([^"\\]|\\.)*)".*/\1/p')

echo '{"type":"progress","message":"Reading the request","percent":10}'

# The answer comes as a line of the type resume; what steers the agent may come before it.
answer() {
  while read -r line; do
    case $line in '{"type":"resume"'*) printf '%s' "$line" && return ;; esac
  done
  exit 1
}
echo '{"type":"ask","kind":"approval","prompt":"May I write the report?"}'
said=$(answer) || exit 0
case $said in
  *'"action":"approve"'*) ;;
  *)
    echo '{"type":"fail","error":"I was not allowed to write the report"}'
    exit 0
    ;;
esac

echo '{"type":"progress","message":"Writing","percent":80}'
printf '{"type":"commit","artifact_type":"report","text":"Report: %s\\n"}\n' "$goal"
