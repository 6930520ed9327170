#!/bin/bash
# Compiles with zig, without the options of Apple's compiler that name the target.
arguments=()
skip=
for argument; do
    case $skip$argument in
    --target=* | -mmacosx-version-min=*) ;;
    -arch) skip=yes ;;
    yes*) skip= ;;
    *) arguments+=("$argument") ;;
    esac
done
exec /zig/bin/python -m ziglang cc -target "$TEAMWIRE_ZIG_TARGET" "${arguments[@]}"
