#!/usr/bin/env bash
# Creates a Python environment with the peers: bash bench/peers/setup.sh [FOLDER], by default build/peers.
# The index's torch for Linux is built for CUDA: about 6 GB on disk, though only its CPU side is used here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-build/peers}
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --requirement "$here/requirements.txt"
"$folder/bin/python" -c 'import jax, torch; print("jax", jax.__version__, "torch", torch.__version__)'
