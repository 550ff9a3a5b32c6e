#!/usr/bin/env python3
"""Writes the policy goldens from cases_*.py; nothing else may change them.

Expectations are hand-written from the rules, never taken from the program: a golden that the
program contradicts is settled by reading core/model/policy.md. Usage: tests/golden/policy/update.py
"""
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import dsl  # noqa: E402


def write_case(name, config, steps):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(dsl.line(config))
    (folder / "events.ndjson").write_text("".join(dsl.line(e) for e, _ in steps))
    (folder / "expected.ndjson").write_text("".join(dsl.line(dsl.result(e, x)) for e, x in steps))


def main():
    names = []
    for module in sorted(HERE.glob("cases_*.py")):
        for name, (config, steps) in importlib.import_module(module.stem).CASES.items():
            assert name not in names, name
            names.append(name)
            write_case(name, config, steps)
    for folder in HERE.iterdir():
        if folder.is_dir() and folder.name not in names and (folder / "expected.ndjson").exists():
            print("no case any more:", folder.name)
    (HERE / "cases.txt").write_text("".join(n + "\n" for n in sorted(names)))
    print(len(names), "cases")


main()
