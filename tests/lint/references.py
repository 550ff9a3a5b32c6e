#!/usr/bin/env python3
"""Every document that a tracked text names is in the tree, and where a section is cited with it the
document has a heading of that number.

usage: references.py ROOT [BUILD]

A name is a path from the root, or from the folder of the file that names it; absolute paths and URLs
are places elsewhere. Understood as a citation:
"x.md, section 3", "x.md section 3", "x.md, sections 1 and 2", across the line breaks of a comment.
"""
import pathlib
import re
import subprocess
import sys

NAME = re.compile(r"(?<![\w./-])((?:\.{1,2}/)*[\w-]+(?:/[\w.-]+)*\.md)\b(?!\.\w|/)"
                  r"(?:[`)\]]*,?\s+sections?\s+(\d+(?:(?:\s*,\s*|\s+and\s+|\s*,\s+and\s+)\d+)*))?")
# what a comment puts in front of its next line
CONTINUED = re.compile(r"\n[ \t]*(?:\*(?!/)|//+|#|--|>)?[ \t]*")
HEADING = re.compile(r"^#+ (\d+)\.? ", re.MULTILINE)


def flatten(text: str) -> str:
    """Comment lines that go on become one; a vertical tab stands for each line break."""
    return CONTINUED.sub(lambda match: "\v" * match.group().count("\n") + " ", text)


def check(root: pathlib.Path, file: str, text: str) -> list:
    problems = []
    flat = flatten(text)
    for match in NAME.finditer(flat):
        name, sections = match.groups()
        line = flat.count("\v", 0, match.start()) + 1
        found = [path for path in (root / name, (root / file).parent / name) if path.is_file()]
        if not found:
            problems.append(f"{file}:{line}: {name} is not in the tree")
            continue
        headings = set(HEADING.findall(found[0].read_text(encoding="utf-8")))
        for number in re.findall(r"\d+", sections or ""):
            if number not in headings:
                problems.append(f"{file}:{line}: {name} has no section {number}")
    return problems


def main(root: pathlib.Path) -> int:
    problems = []
    tracked = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, check=True)
    for file in tracked.stdout.decode().split("\0"):
        path = root / file
        if not file or path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" in data or file == "tests/lint/references.py" or file.endswith("package-lock.json"):
            continue
        problems += check(root, file, data.decode("utf-8", errors="replace"))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
