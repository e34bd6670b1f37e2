"""Makes the table and the plots of a run of bench_experiments.

    python bench/experiments/report.py RESULTS.json [TORCH.json] --out PREFIX

Writes PREFIX.md, and, where matplotlib is installed, PREFIX_sizes.svg, PREFIX_blocks.svg and PREFIX_network.svg.
"""

import argparse
import json
from pathlib import Path

SHOWN_SIZES = (32, 512, 2048, 8192)
TARGETS = ("serial", "openmp", "cuda", "pytorch")
STYLE = {"serial": ("tab:gray", "o"), "openmp": ("tab:blue", "s"), "cuda": ("tab:green", "^"), "pytorch": ("tab:red", "x")}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("torch", type=Path, nargs="?")
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def load(options):
    """Rows of all contestants, PyTorch's among them."""
    results = json.loads(options.results.read_text())
    if options.torch and options.torch.exists():
        torch = json.loads(options.torch.read_text())
        results["torch"] = torch["torch"]
        for row in torch["operations"]:
            results["operations"].append({**row, "target": "pytorch", "threads_per_block": None, "skipped": None})
        for row in torch["network"]:
            results["network"].append({**row, "target": "pytorch", "skipped": None})
    return results


def total(row):
    return None if row["forward_ms"] is None else row["forward_ms"] + row["backward_ms"]


def number(ms):
    return f"{ms:.4f}" if ms < 0.1 else f"{ms:.3f}" if ms < 10 else f"{ms:.1f}"


def cell(row):
    if row is None:
        return ""
    if row["forward_ms"] is None:
        return f"({row['skipped']})"
    return f"{number(row['forward_ms'])} + {number(row['backward_ms'])}"


def markdown(lines):
    head, *rest = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rest]) + "\n"


def operations_table(results):
    free = {(r["op"], r["n"], r["target"]): r for r in results["operations"] if r["threads_per_block"] is None}
    targets = [t for t in TARGETS if any(key[2] == t for key in free)]
    sizes = sorted({key[1] for key in free})
    shown = [n for n in sizes if n in SHOWN_SIZES] or sizes[-1:]
    lines = [["operation", "n", *targets]]
    for op in sorted({key[0] for key in free}):
        for n in shown:
            lines.append([op, str(n), *(cell(free.get((op, n, t))) for t in targets)])
    return markdown(lines)


def blocks_table(results):
    rows = [r for r in results["operations"] if r["threads_per_block"]]
    if not rows:
        return "No GPU: nothing was measured.\n"
    blocks = sorted({r["threads_per_block"] for r in rows})
    by_key = {(r["op"], r["threads_per_block"]): r for r in rows}
    lines = [["operation", *(str(b) for b in blocks)]]
    for op in sorted({r["op"] for r in rows}):
        lines.append([op, *(cell(by_key.get((op, b))) for b in blocks)])
    return markdown(lines)


def network_table(results):
    by_key = {(r["width"], r["target"]): r for r in results["network"]}
    targets = [t for t in TARGETS if any(key[1] == t for key in by_key)]
    lines = [["width", *targets, "loss before", "loss after 10 steps"]]
    for width in sorted({key[0] for key in by_key}):
        rows = [by_key.get((width, t)) for t in targets]
        steps = [number(r["step_ms"]) if r and r["step_ms"] is not None else f"({r['skipped']})" if r else "" for r in rows]
        losses = [[f"{r[key]:.4f}" for r in rows if r and r.get(key) is not None] for key in ("first_loss", "last_loss")]
        lines.append([str(width), *steps, *(" / ".join(dict.fromkeys(values)) for values in losses)])
    return markdown(lines)


def new_plot(axes, title, x_label, y_label):
    axes.set_title(title, fontsize=9)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(x_label, fontsize=7)
    axes.set_ylabel(y_label, fontsize=7)
    axes.tick_params(labelsize=6)
    axes.grid(True, linewidth=0.3)


def draw(axes, points, target):
    points = sorted((x, y) for x, y in points if y is not None and y > 0)
    if points:
        color, marker = STYLE[target]
        axes.plot(*zip(*points), color=color, marker=marker, markersize=3, linewidth=1, label=target)


def grid_of_operations(plt, results, path, wanted, x_of, x_label):
    names = sorted({r["op"] for r in results["operations"]})
    figure, axes = plt.subplots(3, 5, figsize=(15, 8))
    for ax, op in zip(axes.flat, names):
        new_plot(ax, op, x_label, "ms, forward + backward")
        for target in TARGETS:
            rows = [r for r in results["operations"] if r["op"] == op and r["target"] == target and wanted(r)]
            draw(ax, [(x_of(r), total(r)) for r in rows], target)
    axes.flat[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


def plots(results, out):
    try:
        import matplotlib
    except ImportError:
        print("no matplotlib: no plots")
        return
    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "experiments"
    import matplotlib.pyplot as plt

    grid_of_operations(plt, results, out + "_sizes.svg", lambda r: r["threads_per_block"] is None, lambda r: r["n"], "n (n x n elements)")
    if any(r["threads_per_block"] for r in results["operations"]):
        grid_of_operations(
            plt, results, out + "_blocks.svg", lambda r: r["threads_per_block"], lambda r: r["threads_per_block"], "threads per block"
        )
    figure, ax = plt.subplots(figsize=(6, 4))
    new_plot(ax, "three-layer network, batch 256", "width of the hidden layers", "ms per training step")
    for target in TARGETS:
        draw(ax, [(r["width"], r["step_ms"]) for r in results["network"] if r["target"] == target], target)
    ax.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(out + "_network.svg")


def main():
    options = arguments()
    results = load(options)
    Path(options.out + ".md").write_text(
        "# Tensor operations and a network\n\n"
        f"GPU: {results['gpu']}. CPU threads: {results['cpu_threads']}. PyTorch: {results.get('torch', 'not run')} (eager, on the GPU).\n"
        "Milliseconds, medians: forward + backward. In brackets: left out, as it would have taken longer than "
        f"{results['most_seconds']:g} s.\n\n## Sizes\n\n{operations_table(results)}\n"
        f"## Threads per block, n = {results['block_sweep_size']}, on the GPU\n\n{blocks_table(results)}\n"
        f"## A training step, batch 256\n\n{network_table(results)}"
    )
    plots(results, options.out)


if __name__ == "__main__":
    main()
