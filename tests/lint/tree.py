#!/usr/bin/env python3
"""The shape of the tree: top level, a README or header per folder, no stray artefacts, and no number
in README.md without evidence.

usage: tree.py ROOT [BUILD]
"""
import pathlib
import re
import subprocess
import sys

TOP = {"CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "api", "core", "deploy", "evidence",
       "openapi", "server", "tests", "web"}
FOLDERS = ["core/base", "core/model", "core/wire", "core/viz", "core/platform", "core/super", "core/record",
           "core/tool", "api", "server", "openapi", "web", "tests", "deploy", "evidence"]


def main(root: pathlib.Path) -> int:
    problems = []
    tracked = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=True)
    files = tracked.stdout.splitlines()
    for top in sorted({f.split("/")[0] for f in files}):
        if top not in TOP and not top.startswith("."):
            problems.append(f"{top}: not part of the top level")
    for folder in FOLDERS:
        if not (root / folder / "README.md").exists():
            problems.append(f"{folder}: no README.md that says its rule")
    for file in files:
        if re.search(r"(^|/)(node_modules|__pycache__|build)/|\.(o|so|a|pyc|db)$", file):
            problems.append(f"{file}: a build artefact is tracked")
    readme = (root / "README.md").read_text(encoding="utf-8")
    for key in re.findall(r"\[evidence: ([^\]]+)\]", readme):
        if not (root / "evidence" / key).exists():
            problems.append(f"README.md: evidence/{key} does not exist")
    figure = re.compile(r"\b\d+(\.\d+)?\s?(ms|us|µs|ns|%|x|MiB/s|events/s)(?![A-Za-z])")
    for number, line in enumerate(readme.splitlines(), 1):
        if line.startswith(("    ", "```")) or "[evidence:" in line or "`" in line:
            continue
        if figure.search(line):
            problems.append(f"README.md:{number}: a measured figure without [evidence: …]: {line.strip()}")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
