"""PyTorch, eager and compiled: python bench/peers/run_torch.py --json FILE (see bench/README.md)."""

import os
import sys

import common

options = common.arguments(__doc__)
if options.device == "cpu":
    os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch

import torch_fields
import torch_programs


def tensors(arrays):
    out = {name: torch.from_numpy(array.copy()).to(options.device) for name, array in arrays.items()}
    return {name: t.long() if t.dtype == torch.int32 else t for name, t in out.items()}  # as indices want it


def run(case, arrays, f):
    """Functions that run forward alone, and forward and backward, and return what they computed."""
    wrt, outputs = common.names(case)
    a = tensors(arrays)
    for name in wrt:
        a[name].requires_grad_()
    inputs = [a[name] for name in wrt]
    incoming = [a["d_" + name] for name in outputs]

    def forward():
        return common.named(outputs, f(a, case["sizes"]))

    def both():
        y = forward()
        gradients = torch.autograd.grad([y[name] for name in outputs], inputs, incoming)
        return {**{n: t.detach() for n, t in y.items()}, **{"d_" + n: g for n, g in zip(wrt, gradients)}}

    return forward, both


def contestants(case, arrays, f):
    yield "pytorch eager", run(case, arrays, f)
    if case["program"] in torch_fields.LONG_LOOPS:
        return
    torch._dynamo.reset()
    yield "torch.compile", run(case, arrays, torch.compile(f, dynamic=False))


def main():
    torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    on_device = options.device == "cuda"
    return common.main(
        options,
        torch_programs.PROGRAMS | torch_fields.PROGRAMS,
        contestants,
        wait=lambda _: torch.cuda.synchronize() if on_device else None,
        to_numpy=lambda t: t.cpu().numpy(),
        peers={"pytorch": torch.__version__},
        device=torch.cuda.get_device_name() if on_device else None,
    )


if __name__ == "__main__":
    sys.exit(main())
