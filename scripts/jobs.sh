#!/bin/sh
# Prints how many compilers may run at once: one per core, but no more than memory holds (a file that includes LibTorch
# takes up to 2 GB).
cores=$(nproc)
by_memory=$(awk '/^MemAvailable/ { print int($2 / 2000000) }' /proc/meminfo)
[ "$by_memory" -ge 1 ] || by_memory=1
[ "$cores" -le "$by_memory" ] && echo "$cores" || echo "$by_memory"
