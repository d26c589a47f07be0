"""Rules about Python: its packages, their versions, and what the vendor's ones are given."""

from __future__ import annotations

from rknn_runtime.tools.doctor.facts import Facts
from rknn_runtime.tools.doctor.log import line_with
from rknn_runtime.tools.doctor.rule import PROBLEM, Rule, logged, matched

__all__ = ["RULES"]


def _target_argument(facts: Facts) -> str:
    looked_for_cable = line_with("no cable", facts.log) if facts.soc is not None else ""
    return line_with("target argument", facts.log) or looked_for_cable


RULES = (
    Rule("illegal-instruction", PROBLEM, "python", logged("instruction"),
         "export OPENBLAS_CORETYPE=ARMV8", """
        a package was built for another processor, or OpenBLAS of NumPy mistakes this one"""),
    Rule("numpy-abi", PROBLEM, "python", logged("numpy"), "pip install 'numpy<2'", """
        a package was built for NumPy 1 (often OpenCV), and NumPy 2 is installed: take a newer one
        of that package, or the older NumPy"""),
    Rule("numpy-abi", PROBLEM, "python", logged("numpy too old"), "pip install --upgrade numpy", """
        a package was built for a newer NumPy than the one that is installed, or there are two of
        them"""),
    Rule("numpy-abi", PROBLEM, "python", logged("numpy's names"), "pip install 'numpy<1.24'", """
        a program uses names that newer NumPys do not have ({found})"""),
    Rule("managed-python", PROBLEM, "python", logged("managed"),
         "python3 -m venv ~/rknn && . ~/rknn/bin/activate", """
        pip may not change the system's Python: install into an environment"""),
    Rule("python-symbols", PROBLEM, "python", logged("python symbols"),
         "export LD_PRELOAD=libpython3.X.so.1.0  # of this Python's version", """
        a package does not find functions of Python: it is for another version, or the program
        that has Python in it loaded it for itself alone"""),
    Rule("python-incomplete", PROBLEM, "python", logged("python's part"),
         "sudo apt install python3-venv python3-tk libffi-dev libssl-dev liblzma-dev", """
        a part of Python itself is missing ({found}): its package, or, for a Python that was built
        here, what its build needs; then build it anew"""),
    Rule("no-pkg-resources", PROBLEM, "python", logged("packaging"),
         "pip install 'setuptools<81'", """
        the vendor's package wants pkg_resources or distutils, which new setuptools and Pythons do
        not have"""),
    Rule("no-rknnlite", PROBLEM, "python",
         lambda facts: facts.is_pc and "no rknnlite" in facts.signs,
         "pip install rknn-toolkit2", """
        the vendor's toolkit is not installed in this Python; `rknn-runtime convert` makes an
        environment with it by itself"""),
    Rule("no-rknnlite", PROBLEM, "python", logged("no rknnlite"),
         "pip install rknn-toolkit-lite2", """
        the vendor's rknnlite is not installed in this Python; this package has the same class:
        write `from rknn_runtime.rknnlite import RKNNLite`, or install the vendor's wheel of this
        Python's version into this environment"""),
    Rule("target-argument", PROBLEM, "python",
         matched("other target", r"while required target_platform = (\w+)"),
         "rknn.init_runtime(target={found[1]!r})", """
        the target that init_runtime was given is another chip than the board on the cable
        ({found[1]})"""),
    Rule("target-argument", PROBLEM, "python", _target_argument,
         "rknn.init_runtime()", """
        init_runtime was given a target, which is for a PC with the board on a cable: leave it out
        on the board"""),
    Rule("first-toolkit", PROBLEM, "python", logged("first toolkit"),
         "pip install rknn-toolkit2", """
        rknn-toolkit 1.x is for the first generation of chips (RK1808, RK3399Pro, RV1126): take
        rknn-toolkit2, on a PC"""),
    Rule("simulator-refuses", PROBLEM, "python", logged("simulator"),
         "rknn-runtime detect model.rknn IMAGE --sim", """
        the vendor's simulator does not run a .rknn file that was loaded; the simulated NPU of this
        package does"""),
)  # fmt: skip
