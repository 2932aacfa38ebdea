#!/usr/bin/env python3
"""What the files that changed since a commit can have changed.

    .ci/affected.py COMMIT BUILD_TREE tests LABEL    a line a test: its name, then the targets that it runs
    .ci/affected.py COMMIT BUILD_TREE sources        a line a source that is to be read again; X.hpp.cxx only includes X.hpp

COMMIT is one of which everything passed (.ci/checked names it); "none", or a commit that this clone does not
have, stands for: everything changed. BUILD_TREE is built: what depends on what is asked of ninja, which knows
each object's headers and each program's objects.

A changed file that no compiler reads (a CMakeLists.txt, a file of numbers, a deleted source) stands for all
files below its folder, and where there are none, for all there are. Not so what no compiled test reads.
"""

import functools
import json
import pathlib
import re
import subprocess
import sys

# Text, scripts, and files that only scripts and their tests use.
READ_BY_NO_COMPILED_TEST = re.compile(
    r"(docs|benchmarks|scripts|tests/(docs|project|reliability|slurm)|\.ci)/|.*\.md$|LICENSE$")


def lines(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def changed_files(root, commit):
    """Paths below root; None where that cannot be told."""
    known = subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=root, stderr=subprocess.DEVNULL)
    if known.returncode != 0:
        return None
    return set(lines("git", "diff", "--name-only", "--no-renames", commit, cwd=root) +
               lines("git", "ls-files", "--others", "--exclude-standard", cwd=root))


def compilations(tree):
    """What ninja compiles: source, object as ninja calls it."""
    return [(entry["file"], re.search(r" -o (\S+)", entry["command"]).group(1))
            for entry in json.loads((tree / "compile_commands.json").read_text())]


def sources_of_objects(root, tree):
    """Object, as ninja calls it -> the files of this project that were read to make it."""
    @functools.cache
    def name_in_project(line):
        path = (tree / line.strip()).resolve()
        return str(path.relative_to(root)) if path.is_relative_to(root) and not path.is_relative_to(tree) else None

    result, files = {}, None
    for line in lines("ninja", "-t", "deps", cwd=tree):
        if line and not line.startswith(" "):
            files = result.setdefault(line.split(": #deps")[0], set())
        elif line:
            files.add(name_in_project(line))
    return result


def sources_of_lone_headers(root, tree):
    """The same of those objects that try a public header on its own, which are not part of all: from what it includes."""
    @functools.cache
    def included_by(name):
        path = root / "src" / name
        text = path.read_text() if path.is_file() else ""
        return re.findall(r'^#include [<"]([^>"]+)', text, re.MULTILINE)

    result = {}
    for source, made in compilations(tree):
        header = re.search(r"_verify_interface_header_sets/(.*)\.cxx$", source)
        if header:
            read, left = set(), [header.group(1)]
            while left:
                name = left.pop()
                if name not in read:
                    read.add(name)
                    left += included_by(name)
            result[made] = {f"src/{name}" for name in read}
    return result


def changed_objects(root, tree, commit):
    """The objects that the changes reach; None: all."""
    changed = changed_files(root, commit)
    if changed is None:
        return None
    objects = sources_of_objects(root, tree) | sources_of_lone_headers(root, tree)
    known = set().union(*objects.values()) - {None}
    reached = set()
    for path in changed:
        if path in known:
            reached.add(path)
        elif not READ_BY_NO_COMPILED_TEST.match(path):
            folder = str(pathlib.PurePath(path).parent) + "/"
            beside = {file for file in known if file.startswith(folder)}
            if not beside:
                return None
            reached |= beside
    return {name for name, files in objects.items() if files & reached}


def print_tests(tree, objects, label):
    listed = json.loads("".join(lines("ctest", "--show-only=json-v1", "--label-regex", f"^{label}$", cwd=tree)))
    inputs = {}
    for test in listed["tests"]:
        programs = [str(pathlib.Path(word).relative_to(tree)) for word in test["command"]
                    if word.startswith(f"{tree}/") and pathlib.Path(word).is_file()]
        for program in programs:
            if program not in inputs:
                inputs[program] = set(lines("ninja", "-t", "inputs", program, cwd=tree))
        if objects is None or any(inputs[program] & objects for program in programs):
            print(test["name"], *programs)


def print_sources(tree, objects):
    for source, made in compilations(tree):
        if objects is None or made in objects:
            print(source)


def main(commit, tree, question, *label):
    root, tree = pathlib.Path(__file__).resolve().parent.parent, pathlib.Path(tree).resolve()
    objects = changed_objects(root, tree, commit)
    if question == "tests":
        print_tests(tree, objects, *label)
    else:
        print_sources(tree, objects)


main(*sys.argv[1:])
