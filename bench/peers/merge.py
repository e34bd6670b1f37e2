"""Times of `bench_fields time` and of the peers side by side: python bench/peers/merge.py OURS THEIRS.. --json FILE.

OURS are files of lines of JSON, THEIRS those that run_jax.py and run_torch.py write (see bench/README.md)."""

import argparse
import json
import math
import time
from pathlib import Path


def lines(file):
    """The rows of `bench_fields time`: what is no JSON is a refusal, and said."""
    for line in file.read_text().splitlines():
        if line.startswith("{"):
            yield json.loads(line)
        elif line.strip():
            print(f"{file}: {line}")


def device_of(row):
    return "cuda" if row["target"] == "cuda" else f"{row['threads']} threads"


def merged(ours, theirs, cpu):
    """The rows of every program by name, in the order of the peers' files."""
    programs = {}
    peers = {}
    for file in theirs:
        run = json.loads(file.read_text())
        peers.update(run["peers"])
        for p in run["programs"]:
            rows = programs.setdefault(p["program"], {"sizes": p["sizes"], "rows": []})["rows"]
            rows += [{"device": "cuda" if run["device"] else cpu, **row} for row in p["rows"]]
    for file in ours:
        for row in lines(file):
            if row["program"] not in programs:
                continue
            name = row["variant"] if row["facts"] == "verify" else f"{row['variant']}, {row['facts']}"
            times = {"forward_ms": row["median_forward_ms"], "backward_ms": row["median_backward_ms"]}
            extra = {key: row[key] for key in ("tape_bytes", "build_ms", "kernels")}
            programs[row["program"]]["rows"].insert(0, {"device": device_of(row), "name": name, **times, **extra})
    return peers, programs


def both(row):
    return None if row is None or row["forward_ms"] is None else row["forward_ms"] + row["backward_ms"]


def table(programs, device):
    """Milliseconds of forward and backward together, and those of the fastest peer over ours."""
    names = list(dict.fromkeys(r["name"] for p in programs.values() for r in p["rows"] if r["device"] == device))
    print(f"\n{device}: ms of forward and backward")
    print("".join(f"{cell:>18}" for cell in ["program", *names, "peer / ours"]))
    ratios = []
    for program, p in programs.items():
        times = {r["name"]: both(r) for r in p["rows"] if r["device"] == device}
        peers = [ms for name, ms in times.items() if not name.startswith("restructured") and ms]
        ours = times.get("restructured")
        ratio = min(peers) / ours if peers and ours else None
        ratios += [ratio] if ratio else []
        cells = [f"{times[n]:.3f}" if times.get(n) else "-" for n in names] + [f"{ratio:.2f}" if ratio else "-"]
        print("".join(f"{cell:>18}" for cell in [program, *cells]))
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"the fastest peer takes {mean:.2f} times our time (geometric mean of {len(ratios)})")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", type=int, default=16, help="that the peers had on the CPU")
    parser.add_argument("--what", default="", help="machine and commit, to be kept")
    options = parser.parse_args()
    theirs = [file for file in options.files if file.suffix == ".json"]
    ours = [file for file in options.files if file.suffix != ".json"]
    peers, programs = merged(ours, theirs, f"{options.threads} threads")
    for program, p in programs.items():
        for row in p["rows"]:
            if row.get("skipped"):
                print(f"{program}: {row['name']} on {row['device']} did not run: {row['skipped']}")
    for device in (f"{options.threads} threads", "cuda"):
        if any(row["device"] == device for p in programs.values() for row in p["rows"]):
            table(programs, device)
    if options.json:
        what = "medians, ms, of forward and of both less forward; max_rel_difference from ours on the CPU"
        listed = [{"program": name, **p} for name, p in programs.items()]
        result = {"date": time.strftime("%F"), "machine": options.what, "peers": peers, "times": what, "programs": listed}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
