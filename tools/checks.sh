#!/usr/bin/env bash
# Other builds of the same: a few unit tests with sanitizers, the libraries with clang, whose warnings are errors, and shared
# libraries, which are installed and used.
set -euo pipefail
cd "$(dirname "$0")/.."

bash tools/setup.sh clang-16 libomp-16-dev

# Debug, so programs are verified after every pass. Not optimised: that takes the compiler more time than the tests save.
cmake --preset asan
cmake --build --preset asan --parallel "$(nproc)"
# Without those that are about how much stack a deep expression takes, which is another one here.
for tests in unit_dsl unit_interpreter unit_passes unit_tape; do
  build/asan/tests/$tests --gtest_brief=1 --gtest_filter=-Deep*
done

cmake --preset clang
cmake --build --preset clang --parallel "$(nproc)"

cmake --preset shared
cmake --build --preset shared --parallel "$(nproc)"
ctest --preset shared
