#!/usr/bin/env python3
"""Writes src/lockstep/data/tokens/unicode_ranges.hpp, which GPT-2's tokenizer needs, from Python's copy of
the Unicode database: scripts/unicode_ranges.py >src/lockstep/data/tokens/unicode_ranges.hpp"""
import unicodedata

WHITE_SPACE = [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]


def ranges(codes):
    found = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def of_category(first):
    return [c for c in range(0x110000) if unicodedata.category(chr(c))[0] == first]


def table(name, doc, codes):
    print(f"/// {doc}\ninline constexpr CodeRange {name}[] = {{")
    line = "   "
    for first, last in ranges(codes):
        item = f" {{{first:#x}, {last:#x}}},"
        if len(line) + len(item) > 100:
            print(line)
            line = "   "
        line += item
    print(line + "\n};\n")


print(f"""#pragma once
// Unicode {unicodedata.unidata_version}, by scripts/unicode_ranges.py.

namespace lockstep {{

struct CodeRange {{
  char32_t first, last;
}};

// clang-format off""")
table("letters", "General categories L*.", of_category("L"))
table("numbers", "General categories N*.", of_category("N"))
table("white_space", "Property White_Space.", WHITE_SPACE)
print("// clang-format on\n\n}  // namespace lockstep")
