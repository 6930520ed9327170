# Fills DIRECTORY with a Debian that can compile for macOS: a compiler with the sources of its standard library, and
# zig, which brings a C compiler with Apple's headers. Writes DIRECTORY/done last.
#   install.sh DIRECTORY REQUIREMENTS
set -eu
root=$1
rm -rf "$root"
# Debian's unstable release has a recent Rust, and its sources in the same version.
debootstrap --variant=minbase --include=ca-certificates,python3-venv sid "$root"
# What this machine trusts, such as the certificate of a proxy.
cp --dereference /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
cp "$2" "$root/requirements.txt"
# A mirror may be older than its lists are valid.
chroot "$root" apt-get --option Acquire::Check-Valid-Until=false update
chroot "$root" apt-get install --yes --no-install-recommends cargo gcc libc6-dev rust-src rustc
chroot "$root" python3 -m venv /zig
chroot "$root" /zig/bin/python -m pip install --quiet --disable-pip-version-check --requirement /requirements.txt
mkdir "$root/source" "$root/target"
touch "$root/done"
