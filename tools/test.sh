#!/usr/bin/env bash
# Installs what is missing, checks the format, builds everything, and runs
# every test through ctest.
#   bash tools/test.sh [BUILD_FOLDER]
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/.." && pwd)
build_dir=${1:-$source_dir/build}
. "$source_dir/tools/packages.sh"
ciuic_install_packages
ciuic_check_format "$source_dir"
ciuic_configure "$source_dir" "$build_dir"
cmake --build "$build_dir" -j"$(nproc)"
ctest --test-dir "$build_dir" --output-on-failure
