#!/bin/sh
exec /zig/bin/python -m ziglang ar "$@"
