"""Draws a run of bench_random_scatters: python bench/random_scatters.py RESULTS.json PICTURE.svg

One field for every kind of loop, number of indices and length of row: milliseconds of every variant, by number of targets and
skew, on a logarithmic scale. Prints the geometric means and the cases in which the restructured variant, with indices as they come or versioned, is not the fastest.
"""

import json
import math
import sys
from itertools import groupby
from pathlib import Path

COLORS = {"restructured": "#1f77b4", "versioned": "#2ca02c", "atomic": "#d62728", "naive-tape": "#7f7f7f"}
SKEWS = ("none", "zipf", "equal")
WIDTH, HEIGHT, COLUMNS, MARGIN = 250, 170, 4, 40


def field_of(row):
    return f"{row['kind']}, {row['keys']} {'index' if row['keys'] == 1 else 'indices'}, rows of {row['length']}"


def marks(rows, variant):
    """(position along the field, milliseconds); skews of one number of targets stand side by side."""
    targets = sorted({row["targets"] for row in rows})
    step = (WIDTH - MARGIN - 10) / len(targets)
    for row in rows:
        if row.get(variant):
            yield MARGIN + (targets.index(row["targets"]) + (SKEWS.index(row["skew"]) + 0.5) / 3) * step, row[variant]


def field(name, rows, variants, x0, y0):
    values = [row[v] for row in rows for v in variants if row.get(v)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    span = max(high - low, 1)
    y = lambda ms: 25 + (HEIGHT - 60) * (1 - (math.log10(ms) - low) / span)
    out = [f'<g transform="translate({x0},{y0})"><text x="{MARGIN}" y="14" font-weight="bold">{name}</text>']
    for power in range(low, low + span + 1):
        out.append(f'<path d="M{MARGIN} {y(10.0**power):.1f}H{WIDTH - 10}" stroke="#ddd"/>')
        out.append(f'<text x="{MARGIN - 4}" y="{y(10.0**power) + 3:.1f}" text-anchor="end">{10.0**power:g}</text>')
    targets = sorted({row["targets"] for row in rows})
    for k, count in enumerate(targets):
        middle = MARGIN + (k + 0.5) * (WIDTH - MARGIN - 10) / len(targets)
        out.append(f'<text x="{middle:.1f}" y="{HEIGHT - 20}" text-anchor="middle">{count:.0e}</text>'.replace("e+0", "e"))
    for variant in variants:
        for x, ms in marks(rows, variant):
            out.append(f'<circle cx="{x:.1f}" cy="{y(ms):.1f}" r="3" fill="{COLORS[variant]}" fill-opacity="0.8"/>')
    return out + ["</g>"]


def picture(results):
    rows = sorted(results["rows"], key=lambda r: (r["kind"], r["keys"], r["length"]))
    variants = [v for v in COLORS if any(r.get(v) for r in rows)]
    fields = [(name, list(group)) for name, group in groupby(rows, field_of)]
    height = 50 + HEIGHT * -(-len(fields) // COLUMNS)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * COLUMNS}" height="{height}" font-family="sans-serif" font-size="9">']
    out.append('<rect width="100%" height="100%" fill="white"/>')
    machine = results["gpu"] if results["target"] == "cuda" else f"{results['cpu']}, {results['threads'] or 'all'} threads"
    out.append(f'<text x="10" y="16" font-size="12">Sums into random rows on {machine}: ms by number of targets; none, Zipf and equal side by side</text>')
    for k, variant in enumerate(variants):
        out.append(f'<circle cx="{20 + 120 * k}" cy="32" r="4" fill="{COLORS[variant]}"/><text x="{28 + 120 * k}" y="36" font-size="11">{variant}</text>')
    for k, (name, group) in enumerate(fields):
        out += field(name, group, variants, WIDTH * (k % COLUMNS), 45 + HEIGHT * (k // COLUMNS))
    return "\n".join(out + ["</svg>"]) + "\n"


def report(rows):
    for other in ("atomic", "naive-tape"):
        for ours in ("restructured", "versioned"):
            ratios = [(row[ours] / row[other], row) for row in rows if row.get(other) and row.get(ours)]
            if not ratios:
                continue
            mean = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
            print(f"{ours} takes {mean:.2f} of the time of {other} (geometric mean of {len(ratios)} cases)")
            for ratio, row in sorted(ratios, key=lambda pair: -pair[0]):
                if ratio > 1.25:
                    print(f"  {ratio:5.2f} times as long: {field_of(row)}, {row['targets']} targets, skew {row['skew']}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    results = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(picture(results))
    report(results["rows"])


if __name__ == "__main__":
    main()
