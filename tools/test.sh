#!/usr/bin/env bash
# Installs what is missing, builds and runs all tests. An argument names another configure preset than `release`.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}

bash tools/setup.sh
cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$(nproc)"
# Tests share the cores, so threads that wait should not spin.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
ctest --preset "$preset" --parallel "$(nproc)"
