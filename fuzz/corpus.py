#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Keep the inputs of a fuzzer as one text file.

corpus.py unpack FILE.txt FOLDER   write each input of the file to the folder, as libFuzzer reads it
corpus.py pack FOLDER FILE.txt     write the inputs in the folder to the file, shortest first

A line of the file is one input as hexadecimal digits. Lines that begin with # are comments; `pack`
keeps those of the file that it replaces.
"""

import argparse
import hashlib
import sys
from pathlib import Path


def unpack(text: str) -> list[bytes]:
    """Return the inputs of a corpus file. A line that is not hexadecimal is a ValueError."""
    return [bytes.fromhex(line) for line in text.splitlines() if not line.startswith("#")]


def pack(inputs: list[bytes], comments: list[str]) -> str:
    """Return the text of a corpus file with these inputs, each once."""
    ordered = sorted(set(inputs), key=lambda data: (len(data), data))
    return "".join(f"{line}\n" for line in [*comments, *(data.hex() for data in ordered)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("unpack", "pack"))
    parser.add_argument("source", type=Path, metavar="FROM")
    parser.add_argument("target", type=Path, metavar="TO")
    options = parser.parse_args()
    if options.action == "unpack":
        options.target.mkdir(parents=True, exist_ok=True)
        for data in unpack(options.source.read_text()):
            (options.target / hashlib.sha1(data).hexdigest()).write_bytes(data)
        return 0
    inputs = [path.read_bytes() for path in sorted(options.source.iterdir()) if path.is_file()]
    if not inputs:
        print(f"{options.source} holds no input", file=sys.stderr)
        return 1
    old = options.target.read_text().splitlines() if options.target.exists() else []
    options.target.write_text(pack(inputs, [line for line in old if line.startswith("#")]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
