#!/usr/bin/env python3
"""Turns a file into a C array: embed.py INPUT OUTPUT.c NAME HEADER

The array is NAME_text (0-terminated), its size without that byte NAME_bytes; HEADER declares them.
"""
import sys

source, target, name, header = sys.argv[1:]
with open(source, "rb") as file:
    data = file.read()
lines = [", ".join(str(byte if byte < 128 else byte - 256) for byte in data[i:i + 20]) + ","
         for i in range(0, len(data), 20)]
with open(target, "w") as file:
    file.write(f'#include "{header}"\n\nconst char {name}_text[] = {{\n')
    file.write("\n".join(lines))
    file.write(f"\n0}};\nconst size_t {name}_bytes = {len(data)};\n")
