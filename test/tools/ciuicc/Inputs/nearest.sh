#!/usr/bin/env bash
# nearest.sh MODEL CONFIG DEVICES MEMORY: compiles the jobs that a refusal says
# would fit, with the flags that it says.
common=(compile --model "$1" --config "$2" --devices "$3" --seq-len 64
  --device-memory "$4" --stop-after allocate)
said=$(ciuicc "${common[@]}" 2>&1 | sed -n 's/.*note: fits with \(--[^:]*\): .*/\1/p')
all=0 good=0
while read -r flags; do
  all=$((all + 1))
  # shellcheck disable=SC2086 # flags are words
  ciuicc "${common[@]}" $flags && good=$((good + 1))
done <<<"$said" 2>/dev/null
echo "$good of $all compile"
