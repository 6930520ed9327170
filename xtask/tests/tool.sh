#!/bin/sh
# Stands in for any tool: notes how it was called, then does what the file beside it says.
echo "${0##*/} $*" >>"$CALLS"
[ ! -e "$0.does" ] || . "$0.does"
