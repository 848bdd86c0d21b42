#!/usr/bin/env python3
"""Runs the commands that the documentation shows, exactly as they are written.

    tests/e2e/docs_commands.py [BUILD [FILE.md...]]      (BUILD: the folder build of the tree)

A block is run when it is fenced with ```sh and the line before it is `<!-- run -->`. The blocks of
one page run in order in one folder: a fresh copy of the tree's examples, catalog and docs,
with `build` leading to BUILD and BUILD first on the PATH. A block fails when one of its commands
does, or after BLOCK_SECONDS. Whatever a page started is stopped after it.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import tree

BLOCK_SECONDS = 180
MARK = "<!-- run -->"


def blocks(page):
    """The runnable blocks of a page as (line number, text)."""
    found, lines, block, start, marked = [], page.read_text().splitlines(), None, 0, False
    for number, line in enumerate(lines, 1):
        if block is None:
            if line.startswith("```"):
                block, start = ([] if line.strip() == "```sh" and marked else False), number
            elif line.strip():
                marked = line.strip() == MARK
        elif line.startswith("```"):
            if block is not False:
                found.append((start, "\n".join(block) + "\n"))
            block, marked = None, False
        elif block is not False:
            block.append(line)
    return found


def run_block(folder, build, text):
    """None, or why it failed."""
    with tempfile.TemporaryFile("w+") as output:
        # A file, not a pipe: background processes keep it open after the block has ended.
        process = subprocess.Popen(["sh", "-eu", "-c", text], cwd=folder, env=tree.environment(build),
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            status = process.wait(BLOCK_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = f"more than {BLOCK_SECONDS} s"
        output.seek(0)
        return None if status == 0 else f"status {status}\n{text}---\n{output.read()[-4000:]}"


def main():
    if "--help" in sys.argv:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else tree.root / "build").resolve()
    pages = [pathlib.Path(p) for p in sys.argv[2:]]
    pages = pages or [tree.root / "README.md", *sorted((tree.root / "docs").glob("*.md")),
                      tree.root / "examples/lm/README.md"]
    tree.adopt()
    ran = failed = 0
    for page in pages:
        found = blocks(page)
        if not found:
            continue
        folder = tree.make_folder(build)
        for line, text in found:
            problem = run_block(folder, build, text)
            ran += 1
            if problem:
                failed += 1
                print(f"FAIL {page.name}:{line}: {problem}")
                break  # later blocks of the page build on this one
            print(f"ok   {page.name}:{line}")
        tree.end_all()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{ran} blocks run, {failed} failed")
    sys.exit(1 if failed or not ran else 0)


if __name__ == "__main__":
    main()
