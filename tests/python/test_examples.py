"""The examples run as they are."""

import runpy
from pathlib import Path

import pytest

from conftest import module

examples = Path(__file__).resolve().parents[2] / "examples" / "python"


@pytest.mark.parametrize("name", [path.name for path in sorted(examples.glob("*.py"))])
def test_example(name, capsys):
    text = (examples / name).read_text()
    for library in ("torch", "jax"):
        if f"import {library}\n" in text:
            module(library)
    runpy.run_path(str(examples / name), run_name="__main__")
    assert "differ" in capsys.readouterr().out


def test_there_are_examples():
    assert list(examples.glob("*.py"))
