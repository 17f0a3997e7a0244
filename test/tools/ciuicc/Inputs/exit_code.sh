#!/usr/bin/env bash
# exit_code.sh CODE COMMAND...: whether the command ends with just this code.
# What it says, on either stream, goes to the output.
expected=$1
shift
"$@" 2>&1
code=$?
[ "$code" -eq "$expected" ] || { echo "exit code $code, not $expected"; exit 1; }
