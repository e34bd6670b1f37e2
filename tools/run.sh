#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: the digits example, and two programs compared.
set -euo pipefail
cd "$(dirname "$0")/.."

bash tools/setup.sh
cmake --preset release
cmake --build --preset release --parallel "$(nproc)" --target loopgrad digits

echo
build/release/examples/digits --all
for program in conv1d heat2d; do
  echo
  build/release/tools/loopgrad compare "$program"
done
