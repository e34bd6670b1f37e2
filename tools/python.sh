#!/usr/bin/env bash
# Makes the environment that the Python package is built and tested with, in build/python, and prints its interpreter.
# `bash tools/python.sh build` leaves out PyTorch and JAX: the tests of these are skipped then. About 5 GB with them, as
# wheels of PyTorch for Linux bring CUDA along; tests use the CPU. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/python
python=$folder/bin/python3
what=${1:-all}

requirements=tools/python/$what.txt
stamp=$folder/installed.$what
if ! cmp -s "$requirements" "$stamp"; then
  if ! python3 -m venv --help > /dev/null 2>&1 || ! python3 -c 'import ensurepip' > /dev/null 2>&1 ||
    [ ! -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; then
    bash tools/setup.sh python3-venv python3-dev >&2
  fi
  [ -x "$python" ] || python3 -m venv "$folder" >&2
  "$python" -m pip install --quiet --disable-pip-version-check --no-compile --prefer-binary -r "$requirements" >&2
  cp "$requirements" "$stamp"
fi
realpath -s "$python"
