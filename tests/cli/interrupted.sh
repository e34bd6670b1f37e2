#!/usr/bin/env bash
# `loopgrad fuzz` that is told to stop: it stops at once, with its summary on both outputs and the status of the signal.
# The argument is the command.
set -u
loopgrad=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

for signal in TERM INT; do
  start=$SECONDS
  # Not a child in the background of this shell, which would ignore SIGINT.
  timeout --preserve-status --signal="$signal" 4 "$loopgrad" fuzz --seed 1 --seconds 500 --jobs 2 --compiled 0 \
    --json "$work/$signal.json" > "$work/$signal.txt"
  status=$?
  [ $status -eq $((128 + $(kill -l "$signal"))) ] || fail "$signal: exit status $status"
  [ $((SECONDS - start)) -le 20 ] || fail "$signal: it took $((SECONDS - start)) s"
  grep -q 'random programs from seed 1: .*, interrupted$' "$work/$signal.txt" || fail "$signal: no summary"
  grep -q '"interrupted": true' "$work/$signal.json" || fail "$signal: no JSON"
done

start=$SECONDS
"$loopgrad" fuzz --seed 1 --seconds 3 --jobs 2 --compiled 0 > "$work/limit.txt" || fail "with a limit: exit status $?"
[ $((SECONDS - start)) -le 13 ] || fail "with a limit of 3 s it took $((SECONDS - start)) s"
grep -q 'no mismatch$' "$work/limit.txt" || fail "with a limit: no summary"
exit $((failures > 0))
