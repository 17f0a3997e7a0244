#!/bin/sh
# check_resources.sh NVCC ROOT SOURCE: compiles SOURCE for every architecture
# that is served. Fails on a warning, a spilled register or a stack frame;
# exits 77 (skipped) where there is no compiler for CUDA.
nvcc=$1 root=$2 source=$3
if [ ! -x "$nvcc" ]; then
  echo "skipped: no nvcc"
  exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
"$nvcc" -std=c++20 -O3 -I "$root" -Xcompiler -Wall,-Wextra -Xptxas -v \
  --threads 2 -fatbin \
  -gencode arch=compute_80,code=sm_80 \
  -gencode arch=compute_90a,code=sm_90a \
  -gencode arch=compute_100,code=sm_100 \
  "$source" -o "$work/kernels.fatbin" 2>"$work/log" || {
  cat "$work/log"
  exit 1
}
kernels=$(grep -c "Compiling entry function" "$work/log")
if [ "$kernels" -eq 0 ]; then
  echo "found no kernel in $source"
  exit 1
fi
if grep -i "warning" "$work/log"; then
  exit 1
fi
# Lines are "N bytes stack frame, N bytes spill stores, N bytes spill loads"
# after the line that names the function.
awk '/Function properties for/ { name = $NF }
  /bytes stack frame/ && !/ 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/ {
    print name ":" $0; bad = 1
  }
  END { exit bad }' "$work/log" || exit 1
echo "$kernels kernels without spill or stack frame"
