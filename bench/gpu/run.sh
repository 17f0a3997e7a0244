#!/usr/bin/env bash
# Builds the packed bundles and measures them against PyTorch on this GPU.
#   bash bench/gpu/run.sh [PACK]         PACK: what prepare.py wrote
# Needs nvcc, a C++ compiler, cmake and a python3 with PyTorch and
# transformers; no network, no MLIR. The table is printed last and written to
# $OUT (default: the current folder) as results.md, with the logs of each part.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec python3 -u "$here/run.py" "${1:-$here/../../build/gpu-pack}"
