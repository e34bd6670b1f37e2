"""Writes what the benchmarks of the Python package measure."""

import json

import torch


def write(path, device, text):
    """`text` as JSON, with the name of the GPU where the device is one."""
    if device != "cpu":
        text["gpu"] = torch.cuda.get_device_name()
    with open(path, "w") as file:
        json.dump(text, file, indent=2)
