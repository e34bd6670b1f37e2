#!/usr/bin/env bash
# Every test that docs/design/promises.md names exists: test suites and single tests by their names, files under tests/,
# tests of ctest. Says which does not.
set -euo pipefail
cd "$(dirname "$0")/../.."
page=${1:-docs/design/promises.md}

# What is in the second column between backquotes.
names=$(sed -n 's/^|[^|]*|\(.*\)|$/\1/p' "$page" | grep -oE '`[^`]+`' | tr -d '`' | sort -u)
sources=$(mktemp)
trap 'rm -f "$sources"' EXIT
find tests \( -name '*.cpp' -o -name '*.h' -o -name 'CMakeLists.txt' \) -print0 | xargs -0 cat | tr '\n' ' ' > "$sources"

exists() {
  case $1 in
    'loopgrad fuzz' | compare) grep -q "\"${1#loopgrad }\"" tools/cli/options.cpp ;;
    */) [ -d "tests/$1" ] ;;
    */*) [ -e "tests/$1" ] || [ -e "tests/$1.cpp" ] ;;
    *'.*') grep -qE "NAME ${1%.\*}\." "$sources" ;;
    *.*)
      grep -qE "\bTEST(_F|_P)?\( *${1%%.*} *, *${1##*.} *\)|NAME ${1//./\\.}\b" "$sources" ;;
    *) grep -qE "\bTEST(_F|_P)?\( *$1 *,|NAME $1\b" "$sources" ;;
  esac
}

missing=0 count=0
while IFS= read -r name; do
  count=$((count + 1))
  exists "$name" && continue
  echo "no test is called '$name'"
  missing=1
done <<< "$names"
[ "$count" -gt 20 ] || { echo "only $count tests are named: the page is read in another form"; exit 1; }
exit $missing
