#!/usr/bin/env python3
"""Gradients of time loops under budgets for the tape: bytes against time, and steps that run again against revolve.

Usage: bench/budgets.py LOOPGRAD [--out FILE.json] [--plot FILE.svg] [--threads N]

LOOPGRAD is the command line's binary. Each point is one `compare --only restructured`, which also compares it with the
naive tape. Steps are counted from the sizes of state and tape: ours is the shortest two-level schedule that fits
(tape/checkpoint_sizes.h), revolve's the optimal one that tapes one step at a time (Griewank and Walther, Algorithm 799,
2000), found by dynamic programming.
"""

import argparse
import datetime
import functools
import json
import os
import platform
import re
import subprocess

# Program, sizes, its time loop, and the floats of its state and of the tape of a step.
PROGRAMS = [
    ("heat2d", {"n": 1024, "m": 1024, "T": 100}, "T", lambda s: s["n"] * s["m"], lambda s: s["n"] * s["m"]),
    ("burgers", {"n": 1024, "m": 1024, "T": 100}, "T", None, None),
    ("lstm", {"T": 200, "batch": 16, "hidden": 128, "in": 128}, "T", None, None),
]


def run(loopgrad, program, sizes, budget, threads):
    """What `compare` measures, or the least budget there is as a number."""
    words = [loopgrad, "compare", program, "--only", "restructured", "--json", "-", "--threads", str(threads)]
    words += ["--size", ",".join(f"{name}={value}" for name, value in sizes.items())]
    words += ["--max-tape-bytes", str(budget)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    found = json.loads(done.stdout)["variants"][0]
    if found["forward_ms"] is not None:
        return found
    words = [word for word in words if word not in ("--json", "-")]
    text = subprocess.run(words, capture_output=True, text=True).stdout
    return int(re.search(r"at least (\d+) bytes", text)[1])


def two_levels(steps, state, tape, budget):
    """Steps that the backward run repeats, those that fill tapes included; None where nothing fits."""
    if steps * tape <= budget:
        return 0
    best = None
    for leaf in range(1, steps + 1):
        segments = -(-steps // leaf)
        for leaves in range(1, segments + 1):
            blocks = -(-segments // leaves)
            if (blocks + leaves - 1) * state + leaf * tape <= budget:
                work = steps + (segments - blocks) * leaf
                best = work if best is None else min(best, work)
    return best


def revolve(steps, state, tape, budget):
    """The same for the optimal schedule with one step's tape: states in what is left of the budget."""
    states = (budget - tape) // state
    if states < 1:
        return None

    @functools.lru_cache(maxsize=None)
    def runs(length, free):
        if length == 1:
            return 1
        if free == 1:
            return length * (length + 1) // 2
        return min(first + runs(length - first, free - 1) + runs(first, free) for first in range(1, length))

    return runs(steps, states) - steps  # the first way to the end is the forward run itself


def sweep(loopgrad, entry, points, threads):
    program, sizes, loop, state, tape = entry
    whole = run(loopgrad, program, sizes, 0, threads)
    rows = [{"budget": None, **measured(whole), "steps_again": 0}]
    least = run(loopgrad, program, sizes, 1, threads)
    ratio = (whole["tape_bytes"] / least) ** (1 / points)
    for k in reversed(range(points)):
        budget = int(least * ratio**k) + 1
        row = {"budget": budget, **measured(run(loopgrad, program, sizes, budget, threads))}
        if state:
            counted = (sizes[loop], 4 * state(sizes), 4 * tape(sizes), budget)
            row["steps_again"], row["revolve_steps_again"] = two_levels(*counted), revolve(*counted)
        rows.append(row)
        print(program, json.dumps(row), flush=True)
    return {"program": program, "sizes": sizes, "least_bytes": least, "points": rows}


def measured(row):
    keys = ("tape_bytes", "forward_ms", "backward_ms", "max_rel_error", "bitwise_repeatable")
    return {key: row[key] for key in keys}


def plot(results, path):
    """Bytes of the tape over the time of forward and backward, each relative to those without a budget."""
    colours = ["#3366cc", "#dc3912", "#109618"]
    width, height, margin = 560, 340, 50
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    slowest = max(time_of(p) / time_of(r["points"][0]) for r in results for p in r["points"])
    x = lambda share: margin + share * (width - 2 * margin)
    y = lambda slower: height - margin - (slower - 1) / max(slowest - 1, 0.1) * (height - 2 * margin)
    lines.append(f'<text x="{width / 2}" y="{height - 12}" text-anchor="middle">tape bytes, 1 = no budget</text>')
    lines.append(f'<text x="12" y="24">time, 1 = no budget</text>')
    for tick in range(0, 11, 2):
        lines.append(f'<text x="{x(tick / 10)}" y="{height - 30}" text-anchor="middle">{tick / 10}</text>')
    for tick in range(5):
        slower = 1 + tick / 4 * (slowest - 1)
        lines.append(f'<text x="{margin - 6}" y="{y(slower)}" text-anchor="end">{slower:.1f}</text>')
    for colour, result in zip(colours, results):
        whole = result["points"][0]
        places = [(x(p["tape_bytes"] / whole["tape_bytes"]), y(time_of(p) / time_of(whole))) for p in result["points"]]
        path_text = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        lines.append(f'<polyline points="{path_text}" fill="none" stroke="{colour}"/>')
        lines += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in places]
        lines.append(f'<text x="{width - margin - 60}" y="{40 + 16 * results.index(result)}" fill="{colour}">{result["program"]}</text>')
    with open(path, "w") as file:
        file.write("\n".join(lines + ["</svg>\n"]))


def time_of(point):
    return point["forward_ms"] + point["backward_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("loopgrad")
    parser.add_argument("--out")
    parser.add_argument("--plot")
    parser.add_argument("--points", type=int, default=6)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    results = [sweep(options.loopgrad, entry, options.points, options.threads) for entry in PROGRAMS]
    if options.out:
        machine = {"cpu": platform.processor() or platform.machine(), "threads": options.threads}
        with open(options.out, "w") as file:
            json.dump({"date": datetime.date.today().isoformat(), "machine": machine, "command": "bench/budgets.py", "results": results}, file, indent=2)
            file.write("\n")
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
