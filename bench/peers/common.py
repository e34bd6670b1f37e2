"""What the peers' scripts share: cases, seeded inputs, timing, checking against exported results, and the JSON."""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
BINARY = ("add", "divide", "multiply", "power", "subtract")
UNARY = ("copy", "exp", "log", "negate", "relu", "transpose", "max", "sum")
BATCH_SECONDS = 0.02
LARGEST_BATCH = 20
TOLERANCE = 1e-3
TYPES = {"bool": np.bool_, "i32": np.int32, "i64": np.int64, "f32": np.float32, "f64": np.float64}


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("programs", nargs="*", help="programs of the cases to run (default: all that the peer has)")
    parser.add_argument("--cases", default=HERE.parent / "cases.json", type=Path)
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--rounds", default=7, type=int)
    parser.add_argument("--only", default="", help="contestants whose name has this in it")
    parser.add_argument("--compile-limit", default=60, type=float, help="seconds: what takes longer to compile is left out")
    parser.add_argument("--json", type=Path, help="file for the results, for bench_reference --peers")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--data", type=Path, help="take arrays from this folder, written by an export, and compare results")
    parser.add_argument("--check", type=Path, help="compare with this folder, and measure nothing")
    options = parser.parse_args()
    options.data = options.check or options.data
    return options


def cases(options, known):
    """The cases to run, as dictionaries; with --data they name their arrays."""
    source = options.data / "cases.json" if options.data else options.cases
    wanted = options.programs or known
    return [case for case in json.loads(source.read_text()) if case["program"] in wanted and case["program"] in known]


def exported(arrays, folder):
    """The arrays of a case that an export wrote."""
    return {
        name: np.fromfile(folder / array["file"], TYPES[array["type"]]).reshape(array["shape"])
        for name, array in arrays.items()
    }


def with_ends(arrays):
    """The same, and where there are row starts the row of every entry, made once as for a graph that does not change."""
    if "ptr" not in arrays:
        return arrays
    degrees = np.diff(arrays["ptr"])
    return {**arrays, "end": np.repeat(np.arange(len(degrees), dtype=np.int32), degrees)}


def graph(sizes, random):
    """Row starts and sources as the built-in programs have them: any degrees, low numbers more often."""
    inner = np.sort(random.integers(0, sizes["E"] + 1, sizes["V"] - 1))
    ptr = np.concatenate([[0], inner, [sizes["E"]]]).astype(np.int32)
    src = np.floor(sizes["V"] * random.random(sizes["E"]) ** 2).astype(np.int32)
    return {"ptr": ptr, "src": src}


def shapes(program, s):
    """The float inputs of a program (first those that it is differentiated by) and its output."""
    if program == "conv1d":
        return {"x": (s["n"] + s["k"] - 1,), "w": (s["k"],)}, {"y": (s["n"],)}
    if program == "matmul":
        return {"a": (s["m"], s["k"]), "b": (s["k"], s["n"])}, {"c": (s["m"], s["n"])}
    if program == "heat2d":
        return {"u0": (s["n"], s["m"])}, {"u": (s["n"], s["m"])}
    if program == "burgers":
        return {"u0": (s["n"], s["m"])}, {"last": (s["n"], s["m"])}
    if program == "wave3d":
        cube = (s["n"],) * 3
        return {"u0": cube, "c": cube}, {"last": cube}
    if program == "layernorm":
        x = (s["rows"], s["cols"])
        return {"x": x, "g": x[1:], "b": x[1:]}, {"y": x}
    if program == "tanh_chain":
        return {"x": (s["n"],), "a": (), "b": ()}, {"y": (s["n"],)}
    if program == "window_attention":
        x = (s["H"], s["S"], s["D"])
        return {"q": x, "k": x, "v": x}, {"y": x}
    if program == "csr_sum":
        return {"x": (s["V"], s["D"]), "w": (s["E"],)}, {"y": (s["V"], s["D"])}
    square = (s["n"], s["n"])
    if program in BINARY:
        return {"a": square, "b": square}, {"c": square}
    if program in UNARY:
        return {"a": square}, {"c": square[:1] if program in ("max", "sum") else square}
    if program == "broadcast":
        return {"a": square[:1]}, {"c": square}
    raise KeyError(program)


def make_arrays(case):
    """Seeded inputs and incoming gradient of the stated distribution; times do not depend on more than that."""
    random = np.random.default_rng(1)
    inputs, outputs = shapes(case["program"], case["sizes"])
    positive = case["program"] in ("divide", "log", "power")
    arrays = {
        name: random.uniform(0.5 if positive else -1, 2 if positive else 1, shape).astype(np.float32)
        for name, shape in inputs.items()
    }
    if case["program"] == "wave3d":
        arrays["c"] = random.uniform(0.5, 1.5, inputs["c"]).astype(np.float32)
    if case["program"] == "csr_sum":
        arrays.update(graph(case["sizes"], random))
    for name, shape in outputs.items():
        arrays["d_" + name] = random.uniform(-1, 1, shape).astype(np.float32)
    return arrays


def names(case):
    """Inputs to differentiate by, and the outputs."""
    if "wrt" in case:
        return case["wrt"], case["of"]
    inputs, outputs = shapes(case["program"], case["sizes"])
    return list(inputs), list(outputs)


def named(outputs, y):
    """What a program returned, an array or a dictionary of several, by name."""
    return y if isinstance(y, dict) else {outputs[0]: y}


def check(expected, results):
    """Largest relative difference from what was exported."""
    worst = 0.0
    for name, ours in expected.items():
        ours, theirs = ours.astype(np.float64), np.asarray(results[name], np.float64)
        assert ours.shape == theirs.shape, (name, ours.shape, theirs.shape)
        scale = np.abs(ours).max(initial=0) or 1.0
        difference = np.abs(theirs - ours).max(initial=0) / scale
        worst = float("inf") if np.isnan(difference) else max(worst, float(difference))
    return worst


def medians(forward, both, wait, options):
    """Median milliseconds of `forward()` and of `both()`, the number of runs that they are of, and the seconds of the
    first calls. On a GPU one wait serves several calls, so that the host's part of a call is seen only where it is the
    longer one."""
    start = time.perf_counter()
    wait(both()), wait(forward())  # compiled and warm
    first_seconds = time.perf_counter() - start
    if first_seconds > options.compile_limit:
        raise TimeoutError(f"the first calls took {first_seconds:.0f} s")
    start = time.perf_counter()
    wait(both())
    batch = int(min(max(BATCH_SECONDS / max(time.perf_counter() - start, 1e-9), 1), LARGEST_BATCH))
    calls, repeats = (batch, 1) if options.device == "cuda" else (1, batch)

    def milliseconds(run):
        start = time.perf_counter()
        for _ in range(calls):
            result = run()
        wait(result)
        return 1e3 * (time.perf_counter() - start) / calls

    forward_ms, both_ms = [], []
    for _ in range(options.rounds):
        forward_ms += [milliseconds(forward) for _ in range(repeats)]
        both_ms += [milliseconds(both) for _ in range(repeats)]
    return statistics.median(forward_ms), statistics.median(both_ms), len(both_ms) * calls, first_seconds


def row(name, runs, wait, options):
    """A row of the table. Backward is the time of both less that of forward alone."""
    try:
        forward_ms, both_ms, count, first_seconds = medians(*runs, wait, options)
    except Exception as error:  # a peer that cannot run a program is a row too
        reason = str(error).strip().split("\n")[0][:200]
        return {"name": name, "forward_ms": None, "backward_ms": None, "skipped": reason}
    times = {"forward_ms": forward_ms, "backward_ms": both_ms - forward_ms}
    return {"name": name, **times, "runs": count, "first_seconds": first_seconds}


def main(options, known, contestants, wait, to_numpy, peers, device):
    """Runs the cases: compares with exported results where there are some, measures unless --check says not to. Returns
    1 where a result differs, as the exit status. `contestants` gives names with functions for forward and for both."""
    result = {"date": time.strftime("%F"), "device": device, "peers": peers, "programs": []}
    wrong = 0
    for case in cases(options, list(known)):
        arrays = with_ends(exported(case["arrays"], options.data) if options.data else make_arrays(case))
        expected = exported(case["results"], options.data) if options.data else {}
        rows = []
        for name, runs in contestants(case, arrays, known[case["program"]]):
            if options.only not in name:
                continue
            if options.check and rows:
                break  # compiled or not, they compute the same
            line = {"name": name} if options.check else row(name, runs, wait, options)
            if options.data and not line.get("skipped"):
                results = {key: to_numpy(value) for key, value in runs[1]().items()}
                line["max_rel_difference"] = check(expected, results)
                wrong += not line["max_rel_difference"] <= TOLERANCE
            rows.append(line)
            print(case["program"], case["sizes"], line, flush=True)
        result["programs"].append({"program": case["program"], "sizes": case["sizes"], "rows": rows})
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")
    return int(wrong > 0)
