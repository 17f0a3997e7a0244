#!/usr/bin/env bash
# build_with.sh BUNDLE COMPILER ARGUMENT...: compiles the bundle's kernels with
# the flags that its own CMakeLists.txt gives, and what else is named.
set -euo pipefail
bundle=$1 compiler=$2
shift 2
flags=$(sed -n 's/^target_compile_options(job PRIVATE\(.*\))$/\1/p' \
  "$bundle/src/CMakeLists.txt")
[ -n "$flags" ]
# shellcheck disable=SC2086 # the flags are split on purpose
"$compiler" $flags -I"$bundle/src" "$bundle/src/kernels.cpp" "$@"
