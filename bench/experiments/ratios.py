"""Makes tables and a plot of what bench_ratios measured.

    python bench/experiments/ratios.py PASSES.json SIZES.json --out PREFIX

Writes PREFIX.md and, where matplotlib is installed, PREFIX.svg.
"""

import argparse
import json
from pathlib import Path

LEAST_SHOWN = 1.1  # a pass is in the table if some program takes so much longer, or so much less, without it


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("passes", type=Path)
    parser.add_argument("sizes", type=Path)
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def markdown(lines):
    head, *rest = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rest]) + "\n"


def gradient(row):
    return None if "failure" in row else row["forward_ms"] + row["backward_ms"]


def factors(result):
    """By pass: times of the gradient without it over those with all."""
    whole = [gradient(result[key]) for key in ("all", "all_again")]
    if None in whole:
        return {}
    return {name: None if gradient(row) is None else gradient(row) / min(whole) for name, row in result["without"].items()}


def passes_table(results):
    columns = [(f"{r['program']} {r['target']}", r["all"], factors(r)) for r in results]
    names = list(dict.fromkeys(name for _, _, by_pass in columns for name in by_pass))
    shown = [n for n in names if any(f is None or not 1 / LEAST_SHOWN < f < LEAST_SHOWN for _, _, by in columns for f in [by.get(n, 1)])]
    lines = [["without", *(title for title, _, _ in columns)]]
    lines.append(["gradient / primal", *(f"**{row['ratio']:.2f}**" if "ratio" in row else "-" for _, row, _ in columns)])
    for name in shown:
        cells = ["" if name not in by else "fails" if by[name] is None else f"x {by[name]:.2f}" for _, _, by in columns]
        lines.append([f"`{name}`", *cells])
    return markdown(lines)


def sizes_table(results):
    lines = [["program", "target", "scaled", "gradient / primal by factor", "spread"]]
    for result in results:
        for what in dict.fromkeys(p["scaled"] for p in result["points"]):
            points = [p for p in result["points"] if p["scaled"] == what and "ratio" in p]
            if not points:
                continue
            ratios = [p["ratio"] for p in points]
            text = ", ".join(f"{p['factor']:g}: {p['ratio']:.2f}" for p in points)
            lines.append([result["program"], result["target"], what, text, f"{max(ratios) / min(ratios):.2f}"])
    return markdown(lines)


def plot(results, path):
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys(p["scaled"] for r in results for p in r["points"]))
    figure, axes = plt.subplots(1, len(kinds), figsize=(5.5 * len(kinds), 4), sharey=True, squeeze=False)
    for axis, kind in zip(axes[0], kinds):
        for result in results:
            points = [p for p in result["points"] if p["scaled"] == kind and "ratio" in p]
            if points:
                axis.plot([p["factor"] for p in points], [p["ratio"] for p in points], marker="o", label=f"{result['program']} {result['target']}")
        axis.set_xscale("log", base=2)
        axis.set_xlabel(f"{kind}, times the program's own size")
    axes[0][0].set_ylabel("gradient / primal")
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


def main():
    options = arguments()
    of_passes, of_sizes = (json.loads(path.read_text()) for path in (options.passes, options.sizes))
    text = f"CPU threads: {of_passes['cpu_threads']}, GPU: {of_passes['gpu']}\n\n"
    text += "Time of the gradient without a pass, over that with all:\n\n" + passes_table(of_passes["results"])
    text += "\nGradient over primal as sizes are scaled:\n\n" + sizes_table(of_sizes["results"])
    Path(f"{options.out}.md").write_text(text)
    try:
        plot(of_sizes["results"], f"{options.out}.svg")
    except ImportError:
        print("no matplotlib: no plot")


main()
