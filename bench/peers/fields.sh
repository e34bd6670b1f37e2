#!/usr/bin/env bash
# Programs of bench/fields beside JAX and PyTorch, on the same arrays:
#
#   bash bench/peers/fields.sh check      compares results of the peers with ours, at small sizes; 1 where one differs
#   bash bench/peers/fields.sh time       times on the CPU, and on the GPU if there is one, at the sizes of the programs:
#                                         fields_peers.json and tables as fields_peers.txt, in OUT
#
#   BINARY    the program to run (default: build/release/bench/bench_fields)
#   PYTHON    the Python to use (default: the one of build/peers if bench/peers/setup.sh made it, else python3)
#   OUT       the folder to write to (default: bench/results)
#   ONLY      programs, with commas between them (default: all that JAX has)
#   THREADS   on the CPU (default: all)
#   LIMIT     seconds that `time` may take (default: 450): torch.compile is last and measures what fits
#   WHAT      machine and commit, to be kept in the JSON
set -euo pipefail
. "$(dirname "$0")/../experiments/environment.sh" bench_fields
threads=${THREADS:-$(nproc)}
export LOOPGRAD_CACHE_DIR=${LOOPGRAD_CACHE_DIR:-$out/cache} PYTHONUNBUFFERED=1
if ! "$python" -c 'import jax' 2>/dev/null; then
  echo "no JAX: set PYTHON, or run bench/peers/setup.sh"
  exit 77
fi
only=${ONLY:-$(cd "$here" && JAX_PLATFORMS=cpu "$python" -c '
import jax_grids, jax_meshes, jax_sequences
print(",".join(jax_sequences.PROGRAMS | jax_meshes.PROGRAMS | jax_grids.PROGRAMS))')}
"$python" -c 'import torch' 2>/dev/null && torch=yes || torch=

if [ "${1:-time}" = check ]; then
  "$binary" export --small --interpreted --only "$only" --out "$out/small"
  failed=0
  for peer in jax ${torch:+torch}; do
    "$python" "$here/run_$peer.py" --threads "$threads" --check "$out/small" || failed=1
  done
  exit $failed
fi

export OMP_NUM_THREADS=$threads
devices="cpu${gpu:+ cuda}"
say() { echo "$SECONDS s: $*"; }
time_ours() {  # DEVICE PROGRAMS RUNS
  local target="--target openmp --threads $threads"
  [ "$1" = cpu ] || target="--target cuda"
  "$binary" time $target --variants restructured --only "$2" --runs "$3"
}
time_peer() {  # DEVICE jax|torch [CONTESTANT]
  local file=$out/$2${3:+_$3}_$1 left=$((${LIMIT:-450} - SECONDS))
  rm -f "$file.json"
  [ $left -gt 0 ] || { say "$2 $3 on $1: no time is left"; return; }
  timeout $left "$python" "$here/run_$2.py" --device "$1" --threads "$threads" --rounds 5 ${3:+--only "$3"} \
    --data "$out/data" --json "$file.json" > "$file.txt" 2>&1 ||
    echo "$file.txt ends with status $?: 1 where a result differs, 124 where the time was over"
  say "$2 ${3:-} on $1"
}
export -f time_ours
export binary threads

# Kernels are compiled beforehand, several at a time: what follows has them from the cache.
for device in $devices; do
  tr , '\n' <<< "$only" | xargs -P "$threads" -I{} bash -c "time_ours $device {} 1" > /dev/null || say "not all for $device"
done
say "kernels"
"$binary" export --only "$only" --threads "$threads" --out "$out/data"
for device in $devices; do
  time_ours $device "$only" 9 > "$out/ours_$device.txt"
  say "ours on $device"
  time_peer $device jax
  [ -z "$torch" ] || time_peer $device torch eager
done
for device in ${gpu:+cuda} cpu; do [ -z "$torch" ] || time_peer $device torch compile; done
files=$(ls "$out"/ours_{cpu,cuda}.txt "$out"/{jax,torch_eager,torch_compile}_{cpu,cuda}.json 2>/dev/null || true)
"$python" "$here/merge.py" $files --threads "$threads" --what "${WHAT:-}" --json "$out/fields_peers.json" |
  tee "$out/fields_peers.txt"
