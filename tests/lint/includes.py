#!/usr/bin/env python3
"""Who may include whom: the folders' include rules, checked over every C file.

usage: includes.py ROOT [BUILD]
"""
import pathlib
import re
import sys

# folder -> folders it may include besides itself; "libs" = system headers outside libc it may use
RULES = {
    "core/base": [],
    "core/model": ["core/base"],
    "core/wire": ["core/base", "core/model"],
    "core/platform": ["core/base", "core/model"],
    "core/viz": ["core/base", "core/model", "core/wire"],
    "core/super": ["core/base", "core/model", "core/wire", "core/platform"],
    "core/record": ["core/wire/ring.h", "core/wire/le.h"],
    "core/tool": ["core/base", "core/model", "core/wire", "core/viz"],
    "api": ["core/base", "core/model", "core/wire"],
    "server": ["api", "core/base", "core/model", "core/wire", "core/viz", "core/platform"],
}
# one file has a wider rule: after the tree is empty, in a child, malloc and viz are allowed
EXTRA = {
    "core/super/finish.c": ["core/viz"],
    "core/super/top_stacks.c": ["core/viz"],
    # journal files are one kind of input of the policy replay tool
    "core/tool/ring_peek.c": [],
}
LIBRARIES = {
    "jansson.h": ["api"],
    "uv.h": ["server"],
    "microhttpd.h": ["server"],
    "sqlite3.h": ["server"],
    "cmocka.h": [],
    "dlfcn.h": ["core/record"],
    "link.h": ["core/record"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def folder_of(path: str) -> str:
    best = ""
    for folder in RULES:
        if path.startswith(folder + "/") and len(folder) > len(best):
            best = folder
    return best


def allowed(path: str, folder: str, target: str) -> bool:
    if target.startswith(folder + "/"):
        return True
    permitted = RULES[folder] + EXTRA.get(path, [])
    return any(target == rule or target.startswith(rule + "/") for rule in permitted)


def check(root: pathlib.Path) -> list:
    problems = []
    for file in sorted(list(root.glob("core/**/*")) + list(root.glob("api/**/*")) + list(root.glob("server/**/*"))):
        if file.suffix not in (".c", ".h", ".def", ".inc"):
            continue
        path = file.relative_to(root).as_posix()
        folder = folder_of(path)
        if not folder:
            problems.append(f"{path}: in no folder that has an include rule")
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            kind, target = match.groups()
            if kind == '"':
                if not (root / target).exists():
                    problems.append(f'{path}:{number}: "{target}" is not a path from the root')
                elif target.startswith("tests/"):
                    problems.append(f"{path}:{number}: nothing includes tests")
                elif not allowed(path, folder, target):
                    problems.append(f"{path}:{number}: {folder} may not include {target}")
            else:
                name = target
                if name in LIBRARIES and folder not in LIBRARIES[name]:
                    problems.append(f"{path}:{number}: {folder} may not include <{name}>")
    return problems


if __name__ == "__main__":
    found = check(pathlib.Path(sys.argv[1]))
    print("\n".join(found))
    sys.exit(1 if found else 0)
