#!/usr/bin/env bash
# Makes a release of what is checked out: `bash tools/release.sh 0.2.0`. Sets the version, closes the changelog's section,
# commits and tags. Nothing is pushed: look at the commit, then `git push --follow-tags`. Run `bash .ci/run` before.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:-}
if ! [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
  echo "usage: bash tools/release.sh MAJOR.MINOR.PATCH" >&2
  exit 2
fi
present=$(sed -n 's/^project(loopgrad VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
fail() { echo "$1" >&2; exit 1; }
[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed"
! git rev-parse -q --verify "refs/tags/v$version" > /dev/null || fail "there is a tag v$version"
if git rev-parse -q --verify "refs/tags/v$present" > /dev/null; then
  [ "$(printf '%s\n' "$present" "$version" | sort -V | tail -1)" = "$version" ] || fail "$version is older than $present"
fi
grep -q '^## Unreleased$' CHANGELOG.md || fail "CHANGELOG.md has no section '## Unreleased'"
[ -n "$(sed '1,/^## Unreleased$/d; /^## /,$d' CHANGELOG.md | tr -d '[:space:]')" ] || fail "nothing is in the section '## Unreleased'"

sed -i "s/^project(loopgrad VERSION [0-9.]*/project(loopgrad VERSION $version/" CMakeLists.txt
# What find_package asks for in documents and tests is a minor version.
minor=${version%.*}
sed -i "s/find_package(loopgrad [0-9.]* REQUIRED)/find_package(loopgrad $minor REQUIRED)/" \
  README.md docs/emit.md tests/package/CMakeLists.txt
sed -i "s/^## Unreleased$/## Unreleased\n\n## $version ($(date +%F))/" CHANGELOG.md
git commit -qam "Version $version"
git tag -a "v$version" -m "loopgrad $version"
git --no-pager show --stat --format='%h %s' HEAD
