#!/usr/bin/env bash
# Installs what building and testing needs on Debian 12 and is missing, and the packages that are named. Does nothing, and
# needs no rights, when all is there.
set -euo pipefail

packages=(g++ cmake ninja-build libisl-dev libgmp-dev libfmt-dev nlohmann-json3-dev libcli11-dev libxxhash-dev
  zlib1g-dev libgtest-dev libbenchmark-dev libopenblas0-pthread clang-format "$@")

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo > /dev/null; then
    echo "this needs root, and there is no sudo: run 'apt-get install ${missing[*]}' as root, then this again" >&2
    exit 1
  fi
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
