#!/usr/bin/env bash
# tools/release.sh in a repository of the files that it changes: what it writes, and what it refuses.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for file in tools/release.sh CMakeLists.txt CHANGELOG.md README.md docs/emit.md tests/package/CMakeLists.txt; do
  install -D "$source/$file" "$folder/$file"
done
cd "$folder"
export GIT_CONFIG_GLOBAL=/dev/null GIT_{AUTHOR,COMMITTER}_NAME=tester GIT_{AUTHOR,COMMITTER}_EMAIL=tester@localhost
git init -q . && git add . && git commit -qm files
sed -i '/^## /d; s/^# Changelog$/# Changelog\n\n## Unreleased\n\n- Something new./' CHANGELOG.md && git commit -qam changes

failed=0
expect() {
  local what=$1
  shift
  "$@" > /dev/null 2>&1 || { echo "FAILED: $what"; failed=1; }
}
refused() { ! bash tools/release.sh "$@"; }

expect "no version is refused" refused
expect "one that is no version is refused" refused v1.2
bash tools/release.sh 7.8.9 > /dev/null
expect "the version" grep -q '^project(loopgrad VERSION 7\.8\.9 LANGUAGES' CMakeLists.txt
expect "what documents ask for" grep -q 'find_package(loopgrad 7\.8 REQUIRED)' README.md docs/emit.md tests/package/CMakeLists.txt
expect "the changelog" test "$(sed -n '3p;5p;7p' CHANGELOG.md)" = "## Unreleased
## 7.8.9 ($(date +%F))
- Something new."
expect "a commit" test "$(git log -1 --format=%s)" = "Version 7.8.9"
expect "a tag" test "$(git rev-parse 'v7.8.9^{commit}')" = "$(git rev-parse HEAD)"
expect "nothing is left over" test -z "$(git status --porcelain)"
expect "a release without changes is refused" refused 7.9.0
sed -i 's/^## Unreleased$/## Unreleased\n\n- More./' CHANGELOG.md
expect "changes that are not committed are refused" refused 7.9.0
git commit -qam more
expect "an older version is refused" refused 7.8.8
expect "the same version is refused" refused 7.8.9
expect "the next one is made" bash tools/release.sh 7.9.0
exit $failed
