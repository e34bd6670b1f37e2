#!/usr/bin/env bash
# Gradient over primal in one command: without each pass in turn, and over a 16-fold range of sizes.
#
#   bash bench/experiments/ratios.sh [options of bench_ratios: --programs lbm,dg --targets openmp]
#
# Writes two JSON files, tables (.md) and a plot (.svg, where Python has matplotlib), named after day and machine.
#
#   BINARY   the program to run (default: build/release/bench/bench_ratios)
#   PYTHON   the Python to use (default: the one of build/peers if bench/peers/setup.sh made it, else python3)
#   OUT      the folder to write to (default: bench/results)
set -euo pipefail
. "$(dirname "$0")/environment.sh" bench_ratios
prefix=$out/$(date +%F)_${gpu:-$(nproc)threads}_ratios
for experiment in passes sizes; do
  "$binary" "$experiment" "$@" --json "${prefix}_$experiment.json"
done
"$python" "$here/ratios.py" "${prefix}_passes.json" "${prefix}_sizes.json" --out "$prefix"
ls "$prefix"*
