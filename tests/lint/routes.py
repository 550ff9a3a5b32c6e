#!/usr/bin/env python3
"""api/routes.def and openapi/openapi.yaml name the same routes and methods, and every error code of
errors.def that can leave over HTTP is documented.

usage: routes.py ROOT [BUILD]

Reads the YAML with a few lines of its own (paths and methods are on fixed indents), so that the lint
needs no package.
"""
import pathlib
import re
import sys

METHODS = {"get", "post", "put", "patch", "delete"}


def openapi_routes(text: str) -> set:
    routes, path, inside = set(), None, False
    planned = False
    for line in text.splitlines():
        if re.match(r"^\S", line):
            inside = line.startswith("paths:")
            continue
        if not inside:
            continue
        match = re.match(r"^  (/[^:\s]*|\"/[^\"]*\"):\s*$", line)
        if match:
            path = match.group(1).strip('"')
            continue
        match = re.match(r"^    (\w+):\s*$", line)
        if match and match.group(1) in METHODS:
            current = (match.group(1).upper(), path)
            routes.add(current)
            continue
        if re.match(r"^      x-status:\s*planned", line):
            routes.discard(current)
    return routes


def table_routes(text: str) -> set:
    return {(m.group(1), m.group(2)) for m in
            re.finditer(r'BH_ROUTE\(\s*(GET|POST|PUT|PATCH|DELETE)\s*,\s*"([^"]+)"', text)}


def main(root: pathlib.Path) -> int:
    problems = []
    table = table_routes((root / "api/routes.def").read_text(encoding="utf-8"))
    text = (root / "openapi/openapi.yaml").read_text(encoding="utf-8")
    public = openapi_routes(text)
    if not table or not public:
        problems.append("no routes found: the lint does not understand its input any more")
    problems += [f"{m} {p}: served but not in openapi.yaml" for m, p in sorted(table - public)]
    problems += [f"{m} {p}: in openapi.yaml but not served" for m, p in sorted(public - table)]
    for code, status in re.findall(r'BH_ERROR\(\w+, \d+, "(\w+)", (\d+),', (root / "core/base/errors.def").read_text()):
        if int(status) and int(status) < 500 and not re.search(rf"\b{code}\b", text):
            problems.append(f"openapi.yaml: error code {code} is not documented")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
