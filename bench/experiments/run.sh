#!/usr/bin/env bash
# The experiments in one command:
#
#   bash bench/experiments/run.sh [--quick] [options of bench_experiments]
#
# Times fifteen tensor operations, forward and backward, and the training of a three-layer network on one CPU thread, on all,
# and on the GPU if there is one, with PyTorch eager beside them where Python has torch with CUDA. Writes a table (.md), JSON
# and plots (.svg, where Python has matplotlib) to bench/results, named after day and GPU.
#
#   BINARY   the program to run (default: build/release/bench/bench_experiments)
#   PYTHON   the Python to use (default: the one of build/peers if bench/peers/setup.sh made it, else python3)
#   OUT      the folder to write to (default: bench/results)
set -euo pipefail
. "$(dirname "$0")/environment.sh" bench_experiments
prefix=$out/$(date +%F)_${gpu:-cpu}_experiments

# Kernels are compiled beforehand, several at a time: the program itself times one thing after the other.
"$binary" --operation-names | { cat; echo network; } |
  xargs -P "$(nproc)" -I{} "$binary" "$@" --compile-only {}
"$binary" "$@" --json "$prefix.json"
torch=()
if "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  "$python" "$here/run_torch.py" "$prefix.json" "${prefix}_torch.json"
  torch=("${prefix}_torch.json")
else
  echo "no torch with CUDA: PyTorch is left out"
fi
"$python" "$here/report.py" "$prefix.json" "${torch[@]}" --out "$prefix"
ls "$prefix"*
