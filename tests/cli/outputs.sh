#!/usr/bin/env bash
# What the command does when its outputs are closed, full or left by their reader. Usage: outputs.sh PATH_OF_LOOPGRAD
set -uo pipefail
loopgrad=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

# expect STATUS WORDS COMMAND...: the exit status, and words that standard error must have ("" for none).
expect() {
  local status=$1 words=$2 got
  shift 2
  eval "$*" > "$folder/out" 2> "$folder/err"
  got=$?
  if [ $got -ne "$status" ] || { [ -n "$words" ] && ! grep -q -- "$words" "$folder/err"; } ||
    { [ -z "$words" ] && [ -s "$folder/err" ]; }; then
    echo "FAILED: $*: status $got (not $status), standard error: $(cat "$folder/err")"
    failed=1
  fi
}

for command in list "show conv1d" "explain conv1d" "list --json -" --help; do
  expect 0 '' "$loopgrad $command"
  expect 1 'cannot write to standard output' "$loopgrad $command > /dev/full"
  expect 1 'cannot write to standard output' "$loopgrad $command >&-"
  expect 1 '' "$loopgrad $command > /dev/full 2>&-"
done
expect 1 "cannot write '/dev/full'" "$loopgrad list --json /dev/full"
expect 2 "cannot write '$folder'" "$loopgrad list --json $folder"
expect 1 "cannot write '/dev/full'" "$loopgrad fuzz --count 2 --jobs 1 --target interpreter --features /dev/full"
expect 0 '' "$loopgrad list --json $folder/list.json"
[ -s "$folder/list.json" ] || { echo "FAILED: no JSON"; failed=1; }

# A file that the process may not make as large as the output.
expect 1 "cannot write '$folder/limited.json'" "( (ulimit -f 0; $loopgrad list --json $folder/limited.json) 2>&1 | cat >&2; exit \${PIPESTATUS[0]})"

# A mistake whose reason nobody can read is a mistake.
expect 2 '' "$loopgrad show nothing 2>&-"
expect 2 '' "$loopgrad show nothing 2> /dev/full"
expect 2 '' "$loopgrad >&- 2>&-"
# A file never gets a closed output's descriptor, nor what is printed.
expect 1 'cannot write to standard output' "$loopgrad list --json $folder/other.json >&-"
cmp -s "$folder/list.json" "$folder/other.json" || { echo "FAILED: the JSON has more in it"; failed=1; }

# A reader that leaves early: silence, by SIGPIPE as for other commands or, where that is ignored, status 1 with a word.
expect 0 '' "$loopgrad list | head -1; true"
expect 141 '' "$loopgrad explain gat | true"
expect 1 'cannot write to standard output' "(trap '' PIPE; $loopgrad explain gat | true)"
exit $failed
