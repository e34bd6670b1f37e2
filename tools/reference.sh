#!/usr/bin/env bash
# The API reference, which Doxygen makes of the comments in the public headers (docs/reference/Doxyfile). A declaration
# without one is an error.
#
#   bash tools/reference.sh           writes build/reference/html; installs Doxygen where it is missing
#   bash tools/reference.sh --check   writes nothing that stays; skips (77) where there is no Doxygen, which is a failure
#                                     where LOOPGRAD_REQUIRE_DOXYGEN is set
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ${1:-} == --check ]]; then
  if ! command -v doxygen > /dev/null; then
    echo "no Doxygen here (Debian: apt install doxygen)"
    [ -n "${LOOPGRAD_REQUIRE_DOXYGEN:-}" ] && exit 1
    exit 77
  fi
  LOOPGRAD_REFERENCE=$(mktemp -d)
  trap 'rm -rf "$LOOPGRAD_REFERENCE"' EXIT
else
  command -v doxygen > /dev/null || bash tools/setup.sh doxygen
  LOOPGRAD_REFERENCE=$PWD/build/reference
  rm -rf "$LOOPGRAD_REFERENCE"  # pages of what is no more
  mkdir -p "$LOOPGRAD_REFERENCE"
fi
export LOOPGRAD_REFERENCE
doxygen docs/reference/Doxyfile
[[ ${1:-} == --check ]] || echo "$LOOPGRAD_REFERENCE/html/index.html"
