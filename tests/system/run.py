#!/usr/bin/env python3
"""Runs the tests named (module.Class.method) for ctest: exit status 77 if all of them skipped themselves."""

import sys
import unittest

if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:]))
    if result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() and result.testsRun else 1)
