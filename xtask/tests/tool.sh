#!/bin/sh
# Fakes any tool: records its call, then runs the file beside it, if there is one.
echo "${0##*/} $*" >>"$CALLS"
[ ! -e "$0.does" ] || . "$0.does"
