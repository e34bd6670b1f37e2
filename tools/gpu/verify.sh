#!/bin/bash
# Everything that needs a GPU, with a binary that was built elsewhere (preset `portable`): the GPU's unit tests (of the test
# program that UNIT_CUDA names), gradients of every program on the GPU against forward mode and differences, the
# sanitizer's memcheck and racecheck on some of them, and timings with 20 runs compared bit by bit.
#
#   tools/gpu/verify.sh BINARY OUTPUT_FOLDER [test] [check] [sanitize] [compare] [PROGRAM...]
#
# Without a stage all four run. Prints a short table; the full output is left in the folder, one file per step, a record
# of what passed, to keep under bench/results, as record.json, and all comparisons as compare.json. COMPARE_SECONDS
# limits one comparison, ALL_SECONDS the time until which any is begun.
set -u
binary=$(realpath "$1"); out=$2; shift 2
mkdir -p "$out"
export LOOPGRAD_CACHE_DIR=${LOOPGRAD_CACHE_DIR:-$out/cache}
stages=""; programs=""
for word in "$@"; do
  case $word in test | check | sanitize | compare) stages="$stages $word" ;; *) programs="$programs $word" ;; esac
done
stages=${stages:-test check sanitize compare}
programs=${programs:-$("$binary" list | awk 'NR > 1 {print $1}')}
failed=0

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || { echo "no GPU: nothing is verified"; exit 3; }

if [[ $stages == *test* && -n ${UNIT_CUDA:-} ]]; then
  timeout 120 "$UNIT_CUDA" --gtest_output=json:"$out/tests.json" > "$out/tests" 2>&1 || failed=1
  grep -E '^\[  (PASSED|FAILED|SKIPPED)' "$out/tests"
fi

run_check() {
  timeout 120 "$binary" check "$1" --target cuda > "$out/check.$1" 2>&1
  echo $? > "$out/check.$1.status"
}
run_sanitizer() {
  timeout 200 compute-sanitizer --tool $1 --error-exitcode 9 "$binary" check $2 --target cuda > "$out/$1.$2" 2>&1
  echo $? > "$out/$1.$2.status"
}
export -f run_check run_sanitizer; export binary out

if [[ $stages == *check* ]]; then
  printf '%s\n' $programs | xargs -P 8 -I{} bash -c 'run_check {}'
  for p in $programs; do
    status=$(cat "$out/check.$p.status")
    [ "$status" = 0 ] || { failed=1; echo "check $p: status $status"; grep -vE '^\s*$' "$out/check.$p" | tail -6; }
  done
  echo "check: $(grep -lx 0 "$out"/check.*.status | wc -l) of $(echo $programs | wc -w) programs pass"
fi

if [[ $stages == *sanitize* ]]; then
  for p in softmax layernorm gat matmul conv1d conv2d histogram wave3d cholesky max; do
    for tool in memcheck racecheck; do
      printf '%s %s\n' $tool $p
    done
  done | xargs -P 6 -L 1 bash -c 'run_sanitizer $0 $1'
  for file in "$out"/memcheck.*.status "$out"/racecheck.*.status; do
    step=$(basename "${file%.status}")
    [ "$(cat "$file")" = 0 ] || failed=1
    echo "${step/./ }: status $(cat "$file"), $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "${file%.status}" | tail -1)"
  done
fi

# Sizes that fill a large GPU; other programs run at their own.
sizes_of() {
  case $1 in
    conv1d) echo n=4194304,k=64 ;;
    add | broadcast | copy | divide | exp | log | max | multiply | negate | power | relu | subtract | sum | transpose) echo n=8192 ;;
    matmul) echo n=1024,m=1024,k=1024 ;;
    wave3d) echo n=256,T=8 ;;
    tanh_chain) echo n=67108864 ;;
    csr_sum) echo V=169343,E=1166243,D=32 ;;
    mlp) echo batch=4096,in=784,hidden1=1024,hidden2=1024,classes=10 ;;
    softmax | layernorm) echo rows=65536,cols=1024 ;;
    heat2d) echo n=2048,m=2048,T=10 ;;
    burgers) echo n=1024,m=1024,T=10 ;;
    embedding) echo rows=50000,d=128,n=1048576 ;;
    histogram) echo n=16777216,bins=256 ;;
    gat) echo V=169343,E=1166243,D=32 ;;
    longformer) echo H=8,dilated=2,S=10000,D=512,w=32 ;;
    subdivnet) echo n=327680,in=13,out=64 ;;
    splat) echo n=500000,g=64 ;;
    gmm) echo n=100000,d=20,K=25 ;;
    lbm) echo nx=120,ny=120,nz=150,T=1 ;;
    dg) echo elements=100000 ;;
    lulesh) echo elems=729000,nodes=753571 ;;
    rsbench) echo lookups=200000,nuclides=68,most=34,max_poles=1000,max_windows=100,in_window=12 ;;
    hand) echo vertices=544,points=100000 ;;
    xsbench) echo lookups=17000000,isotopes=68,points=11303,most=34 ;;
    ba) echo n=1000000,cameras=1000,points=300000 ;;
  esac
}

# Where atomics would take minutes.
options_of() {
  case $1 in conv2d | wave3d | tanh_chain | gat) echo --only restructured ;; esac
}

if [[ $stages == *compare* ]]; then
  for p in $programs; do
    [ $SECONDS -le ${ALL_SECONDS:-3600} ] || { echo "compare $p: left out, ${ALL_SECONDS} s are over"; continue; }
    sizes=$(sizes_of $p)
    timeout ${COMPARE_SECONDS:-90} "$binary" compare $p --target cuda ${sizes:+--size $sizes} $(options_of $p) --json "$out/compare.$p.json" > "$out/compare.$p" 2>&1
    status=$?
    if [ $status != 0 ]; then failed=1; echo "compare $p: status $status: $(tail -1 "$out/compare.$p")"; continue; fi
    python3 - "$out/compare.$p.json" <<'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
cell = lambda v: "-" if v["forward_ms"] is None else "%.3f + %.3f ms %4.1f %% err %.0e%s" % (
    v["forward_ms"], v["backward_ms"], 100 * v["roofline_fraction"], v["max_rel_error"] if v["max_rel_error"] is not None else float("nan"),
    "" if v["bitwise_repeatable"] else " DIFFERS")
print("%-17s" % r["program"], " | ".join(v["name"] + " " + cell(v) for v in r["variants"] if v["name"] != "naive-tape"))
PYTHON
  done
fi

python3 - "$out" <<'PYTHON'
import glob, json, os, re, subprocess, sys, time
out = sys.argv[1]
read = lambda name: open(os.path.join(out, name)).read()
statuses = lambda kind: {os.path.basename(f).split(".")[1]: int(open(f).read()) for f in sorted(glob.glob(f"{out}/{kind}.*.status"))}
gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
record = {"date": time.strftime("%F"), "gpu": gpu, "command": "tools/gpu/verify.sh"}
if os.path.exists(f"{out}/tests.json"):
    cases = [c for s in json.loads(read("tests.json"))["testsuites"] for c in s["testsuite"]]
    skipped = [c for c in cases if c.get("result") == "SKIPPED"]
    record["tests"] = {"run": len(cases), "skipped": [f"{c['classname']}.{c['name']}" for c in skipped],
                       "failed": [f"{c['classname']}.{c['name']}" for c in cases if c.get("failures")]}
checks = statuses("check")
if checks:
    record["check"] = {"passed": [p for p, s in checks.items() if s == 0], "failed": [p for p, s in checks.items() if s != 0]}
for tool in ("memcheck", "racecheck"):
    if statuses(tool):
        record[tool] = {p: (re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", read(f"{tool}.{p}")) or ["no summary"])[-1]
                        for p in statuses(tool)}
compared = {os.path.basename(f).split(".")[1]: json.load(open(f)) for f in sorted(glob.glob(f"{out}/compare.*.json"))}
if compared:
    record["same_bits_in_20_runs"] = {p: {v["name"]: v["bitwise_repeatable"] for v in r["variants"]} for p, r in compared.items()}
json.dump(record, open(f"{out}/record.json", "w"), indent=1)
merged = {key: record[key] for key in ("date", "gpu", "command")}
merged["times"] = "medians of 20 runs or more, ms, by events on the device, inputs left where they are"
merged["programs"] = [{k: v for k, v in r.items() if k != "target"} for r in compared.values()]
if compared:
    json.dump(merged, open(f"{out}/compare.json", "w"), indent=1)
PYTHON
exit $failed
