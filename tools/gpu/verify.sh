#!/bin/bash
# Everything that needs a GPU, with a binary that was built elsewhere (preset `portable`): gradients of every program on
# the GPU against forward mode and differences, the sanitizer's memcheck and racecheck on some of them, and timings.
#
#   tools/gpu/verify.sh BINARY OUTPUT_FOLDER [check] [sanitize] [compare] [PROGRAM...]
#
# Without a stage all three run. Prints a short table; the full output is left in the folder, one file per step.
set -u
binary=$(realpath "$1"); out=$2; shift 2
mkdir -p "$out"
export LOOPGRAD_CACHE_DIR=${LOOPGRAD_CACHE_DIR:-$out/cache}
stages=""; programs=""
for word in "$@"; do
  case $word in check | sanitize | compare) stages="$stages $word" ;; *) programs="$programs $word" ;; esac
done
stages=${stages:-check sanitize compare}
programs=${programs:-$("$binary" list | awk 'NR > 1 {print $1}')}
failed=0

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || { echo "no GPU: nothing is verified"; exit 3; }

run_check() {
  timeout 120 "$binary" check "$1" --target cuda > "$out/check.$1" 2>&1
  echo $? > "$out/check.$1.status"
}
export -f run_check; export binary out

if [[ $stages == *check* ]]; then
  printf '%s\n' $programs | xargs -P 8 -I{} bash -c 'run_check {}'
  for p in $programs; do
    status=$(cat "$out/check.$p.status")
    [ "$status" = 0 ] || { failed=1; echo "check $p: status $status"; grep -vE '^\s*$' "$out/check.$p" | tail -6; }
  done
  echo "check: $(grep -lx 0 "$out"/check.*.status | wc -l) of $(echo $programs | wc -w) programs pass"
fi

if [[ $stages == *sanitize* ]]; then
  for p in softmax gat matmul conv1d histogram; do
    for tool in memcheck racecheck; do
      timeout 150 compute-sanitizer --tool $tool --error-exitcode 9 "$binary" check $p --target cuda > "$out/$tool.$p" 2>&1
      status=$?
      [ $status = 0 ] || failed=1
      echo "$tool $p: status $status, $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/$tool.$p" | tail -1)"
    done
  done
fi

# Sizes that fill a large GPU; other programs run at their own.
sizes_of() {
  case $1 in
    conv1d) echo n=4194304,k=64 ;;
    matmul) echo n=1024,m=1024,k=1024 ;;
    mlp) echo batch=4096,in=784,hidden1=1024,hidden2=1024,classes=10 ;;
    softmax | layernorm) echo rows=65536,cols=1024 ;;
    heat2d) echo n=2048,m=2048,T=10 ;;
    burgers) echo n=1024,m=1024,T=10 ;;
    embedding) echo rows=50000,d=128,n=1048576 ;;
    histogram) echo n=16777216,bins=256 ;;
    gat) echo V=169343,E=1166243,D=32 ;;
  esac
}

if [[ $stages == *compare* ]]; then
  for p in $programs; do
    sizes=$(sizes_of $p)
    timeout ${COMPARE_SECONDS:-90} "$binary" compare $p --target cuda ${sizes:+--size $sizes} --json "$out/compare.$p.json" > "$out/compare.$p" 2>&1
    status=$?
    if [ $status != 0 ]; then failed=1; echo "compare $p: status $status: $(tail -1 "$out/compare.$p")"; continue; fi
    python3 - "$out/compare.$p.json" <<'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
cell = lambda v: "-" if v["forward_ms"] is None else "%.3f + %.3f ms %4.1f %% err %.0e%s" % (
    v["forward_ms"], v["backward_ms"], 100 * v["roofline_fraction"], v["max_rel_error"] if v["max_rel_error"] is not None else float("nan"),
    "" if v["bitwise_repeatable"] else " DIFFERS")
print("%-17s" % r["program"], " | ".join(v["name"] + " " + cell(v) for v in r["variants"][1:]))
PYTHON
  done
fi
exit $failed
