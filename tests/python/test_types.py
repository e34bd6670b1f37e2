"""What an editor and a type checker see; and the package as it is installed."""

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import loopgrad as lg

folder = Path(lg.__file__).parent


def test_the_stub_has_what_the_module_has():
    tree = ast.parse((folder / "_core.pyi").read_text())
    names = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    missing = {n for n in dir(lg._core) if not n.startswith("_")} - names
    assert not missing
    assert (folder / "py.typed").exists()


def test_public_functions_have_hints():
    for name in ("program", "compile", "compile_gradient", "show", "explain", "explain_json", "report", "emit"):
        signature = inspect.signature(getattr(lg, name))
        assert signature.return_annotation is not inspect.Signature.empty, name
        assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values()), name


def test_the_installed_package(tmp_path):
    """What a wheel consists of: the component `python` of the build, alone in a folder."""
    build = folder.parent.parent
    if not (build / "cmake_install.cmake").exists():
        pytest.skip("the package is not that of a build folder")
    subprocess.run(["cmake", "--install", build, "--component", "python", "--prefix", tmp_path], check=True, stdout=subprocess.DEVNULL)
    assert [p.name for p in tmp_path.iterdir()] == ["loopgrad"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    code = "import loopgrad; print(loopgrad.__file__); print(loopgrad.builtin('heat2d').name)"
    found = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert found.stdout.split() == [str(tmp_path / "loopgrad" / "__init__.py"), "heat2d"]
    found = subprocess.run([sys.executable, "-m", "loopgrad", "list"], env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "conv1d" in found.stdout
