#!/usr/bin/env python3
"""Functions and constructs that the house style bans, and size bounds of files and functions.

usage: banned.py ROOT [BUILD]
"""
import pathlib
import re
import sys

BANNED = [
    (r"\b(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atoll|atof|alloca|strtok)\s*\(", "banned function", None),
    (r"\bstrto(u?ll?|d|f|ull)\s*\(", "numbers are parsed in base/text only", ["core/base/text.c"]),
    (r"#\s*if(def)?\s+.*__linux__", "platform code belongs into core/platform or core/record",
     ["core/platform/", "core/record/"]),
    (r"\brenameat?\s*\(", "rename only through bh_io_replace", ["core/base/io.c", "core/record/", "server/store"]),
    (r"\b(TODO|FIXME|XXX)\b", "unfinished work is an issue, not a comment", None),
    (r"\bprintf\s*\(", "core returns, only super, tools and server speak",
     ["core/super/", "core/tool/", "server/", "api/", "tests/"]),
]
IN_JOB = [(r"\b(exit|_exit|abort|fprintf|perror)\s*\(", "in the job's process: copy bytes and leave")]
MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 100
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def blank(match) -> str:
    return re.sub(r"[^\n]", " ", match.group(0))


def functions(lines):
    """(name, first, last) of each function body, by the style's rule: brace alone in column 0."""
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            yield start, number
            start = None


def check_file(path: str, text: str) -> list:
    problems = []
    lines = text.splitlines()
    code = STRING.sub(blank, COMMENT.sub(blank, text))
    for pattern, why, exempt in BANNED:
        if exempt and any(path.startswith(e) for e in exempt):
            continue
        source = text if "TODO" in pattern else code
        for match in re.finditer(pattern, source):
            problems.append(f"{path}:{source.count(chr(10), 0, match.start()) + 1}: {match.group(0).strip()}: {why}")
    if path.startswith("core/record/"):
        for pattern, why in IN_JOB:
            for match in re.finditer(pattern, code):
                problems.append(f"{path}:{code.count(chr(10), 0, match.start()) + 1}: {match.group(0)}: {why}")
    if len(lines) > MAX_FILE_LINES:
        problems.append(f"{path}: {len(lines)} lines, more than {MAX_FILE_LINES}: split it")
    if not path.startswith("tests/"):
        for first, last in functions(lines):
            if last - first > MAX_FUNCTION_LINES:
                problems.append(f"{path}:{first}: a function of {last - first} lines, more than {MAX_FUNCTION_LINES}")
    return problems


def main(root: pathlib.Path) -> int:
    problems = []
    for folder in ("core", "api", "server"):
        for file in sorted(root.glob(folder + "/**/*.[ch]")):
            problems += check_file(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
