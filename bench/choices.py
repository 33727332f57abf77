"""Options of the benchmarks' scripts that take several names of a list."""

import argparse
from collections.abc import Callable, Collection


def several_of(known: Collection[str], separator: str = ",") -> Callable[[str], list[str]]:
    """The `type` of such an option: names with the separator between them, each of which is known."""
    def parse(words: str) -> list[str]:
        names = [name for word in words.split(separator) if (name := word.strip())]
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"no such name: {', '.join(unknown)}; there are "
                                             f"{(separator + ' ').join(known)}")
        return names

    return parse
