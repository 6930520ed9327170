# Runs cargo for a target of macOS in the Debian that install.sh has made, on the repository in the working directory,
# which cargo cannot change. Must run in its own mount namespace, with which the mounts go away.
#   unshare --mount run.sh DIRECTORY TARGET COMMAND [ARGUMENT...]
set -eu
root=$1 target=$2
shift 2
cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
install xtask/macos/cc.sh "$root/usr/local/bin/zig-cc"
install xtask/macos/ar.sh "$root/usr/local/bin/zig-ar"
mount --bind --options ro . "$root/source"
mount --types proc proc "$root/proc"
mount --rbind /dev "$root/dev"
variable=$(echo "$target" | tr - _)
# The C compiler knows its system's libraries, so no SDK of Apple is needed; build scripts ask for one all the same.
exec chroot "$root" env --chdir=/source HOME=/root CARGO_HOME=/root/.cargo CARGO_TARGET_DIR=/target CARGO_INCREMENTAL=0 \
    CARGO_PROFILE_DEV_DEBUG=none CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG=none RUSTC_BOOTSTRAP=1 SDKROOT=/ \
    ZIG_GLOBAL_CACHE_DIR=/root/.cache/zig "TEAMWIRE_ZIG_TARGET=${target%%-*}-macos" \
    "CC_$variable=zig-cc" "CXX_$variable=zig-cc" "AR_$variable=zig-ar" \
    cargo "$@" --target "$target" -Zbuild-std=std,panic_abort,test
