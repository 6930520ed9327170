#!/bin/sh
# Installs teamwire @VERSION@ into a directory of yours. `sh install.sh --help` lists the options.
#
# The last line runs `main`, so a script that arrives incomplete does nothing.
set -u

version=@VERSION@
downloads=${TEAMWIRE_DOWNLOAD_URL:-@REPOSITORY@/releases/download}

usage() {
    cat <<'END'
Install teamwire @VERSION@: one file, for you alone, without root.

Usage: sh install.sh [OPTIONS]
       curl -LsSf URL/install.sh | sh -s -- [OPTIONS]

Options:
  --dir DIR          Install into DIR [default: ~/.local/bin]
  --version VERSION  Install another version, with the script of that release
  --attested         Fail unless gh (GitHub's command line) verifies that the project's workflow built the archive
  --help             Print this help

Environment:
  TEAMWIRE_DOWNLOAD_URL  Where a mirror has the releases, each as vVERSION/FILE
                         [default: @REPOSITORY@/releases/download]
END
}

# The SHA-256 sum of the archive for a target.
expected_sum() {
    case $1 in
        @SUMS@
    esac
}

fail() {
    printf 'install.sh: %s\ninstall.sh: next: %s\n' "$1" "$2" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Leaves no file, and no directory that was not there before.
clean() {
    [ -z "$work" ] || rm -rf "$work"
    [ -n "$made" ] || return 0
    left=$dir
    while rmdir "$left" 2>/dev/null && [ "$left" != "$made" ]; do
        left=$(dirname "$left")
    done
}

# Prints the target of this machine.
target() {
    system=$(uname -s) machine=$(uname -m)
    case $system in
        Linux) suffix=unknown-linux-gnu ;;
        Darwin)
            suffix=apple-darwin
            # A shell that Rosetta translates sees another processor.
            [ "$(sysctl -n sysctl.proc_translated 2>/dev/null)" != 1 ] || machine=arm64
            ;;
        MINGW* | MSYS* | CYGWIN* | Windows*) fail "teamwire does not run on Windows" "install it in WSL2" ;;
        *) suffix=$system ;;
    esac
    case $machine in
        x86_64 | amd64) echo "x86_64-$suffix" ;;
        aarch64 | arm64) echo "aarch64-$suffix" ;;
        *) echo "$machine-$suffix" ;;
    esac
}

# Downloads URL to FILE.
download() {
    if has curl; then
        curl --fail --location --silent --show-error --connect-timeout 30 --speed-limit 1000 --speed-time 60 \
            --output "$2" "$1"
        case $? in
            0) return ;;
            23) fail "could not write to $dir" "free some space there, or choose another directory with --dir" ;;
        esac
    elif has wget; then
        wget -q -T 60 -O "$2" "$1"
        case $? in
            0) return ;;
            3) fail "could not write to $dir" "free some space there, or choose another directory with --dir" ;;
        esac
    else
        fail "there is neither curl nor wget" "install one of them"
    fi
    fail "could not download $1" \
        "check the network and the version, or name a mirror in TEAMWIRE_DOWNLOAD_URL, and run the script again"
}

# Prints the sum of FILE.
sum() {
    if has sha256sum; then
        found=$(sha256sum <"$1")
    elif has shasum; then
        found=$(shasum -a 256 <"$1")
    elif has openssl; then
        found=$(openssl dgst -sha256 -r <"$1")
    else
        fail "there is no program that makes SHA-256 sums" "install sha256sum (coreutils), shasum or openssl"
    fi
    echo "${found%% *}"
}

# Verifies where FILE was built, if it can be verified here.
attest() {
    if ! has gh; then
        why="there is no gh"
    elif ! gh auth status >/dev/null 2>&1 </dev/null; then
        why="gh is not signed in"
    elif answer=$(gh attestation verify "$1" --repo @SLUG@ 2>&1 </dev/null); then
        echo "The attestation is verified: a workflow of @SLUG@ built the archive."
        return
    else
        why="gh failed: $answer"
    fi
    if [ -n "$attested" ]; then
        fail "the attestation is not verified: $why" \
            "install gh and sign in (gh auth login), or leave out --attested; nothing was installed"
    fi
    echo "The attestation is not verified: $why. The archive has the sum that this script expects."
}

# Prints the line that adds the directory to PATH.
path_line() {
    case ${SHELL:-} in
        */fish)
            echo "fish_add_path $dir"
            return
            ;;
        */zsh) file=.zshrc ;;
        */bash) file=.bashrc ;;
        *) file=.profile ;;
    esac
    echo "echo 'export PATH=\"$dir:\$PATH\"' >> ~/$file; . ~/$file"
}

main() {
    dir='' wanted=$version attested='' work='' made=''
    while [ $# -gt 0 ]; do
        case $1 in
            --help | -h)
                usage
                exit
                ;;
            --attested)
                attested=--attested
                shift
                continue
                ;;
            --dir=* | --version=*) option=${1%%=*} value=${1#*=} ;;
            --dir | --version)
                [ $# -gt 1 ] || fail "$1 lacks its value" "read sh install.sh --help"
                option=$1 value=$2
                shift
                ;;
            *) fail "there is no option $1" "read sh install.sh --help" ;;
        esac
        [ -n "$value" ] || fail "$option is empty" "read sh install.sh --help"
        if [ "$option" = --dir ]; then dir=$value; else wanted=${value#v}; fi
        shift
    done
    case $wanted in *[!0-9A-Za-z.+-]*) fail "$wanted is not a version" "name one such as $version" ;; esac
    if [ -z "$dir" ]; then
        [ -n "${HOME:-}" ] || fail "HOME is not set" "name a directory with --dir"
        dir=$HOME/.local/bin
    fi
    case $dir in /*) ;; *) dir=$PWD/$dir ;; esac

    target=$(target) || exit
    expected=$(expected_sum "$target")
    if [ "$wanted" = "$version" ] && [ -z "$expected" ]; then
        fail "teamwire $version has no program for $(uname -s) on $(uname -m)" \
            "build it from its sources: cargo install teamwire"
    fi
    program=$dir/teamwire
    if [ -L "$program" ]; then
        fail "$program is a link, which another installer made" \
            "remove it with that installer (docs/upgrading.md lists them), or choose another directory with --dir"
    fi
    [ ! -d "$program" ] || fail "$program is a directory" "choose another directory with --dir"

    umask 022
    trap clean EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    if [ ! -d "$dir" ]; then
        made=$dir
        while [ ! -d "$(dirname "$made")" ]; do made=$(dirname "$made"); done
        mkdir -p "$dir" || fail "could not create $dir" "choose a directory of yours with --dir"
    fi
    # In the same file system, so that the program can be renamed.
    work=$(mktemp -d "$dir/.teamwire-install.XXXXXX") ||
        fail "could not write to $dir" "choose a directory of yours with --dir"

    if [ "$wanted" != "$version" ]; then
        download "$downloads/v$wanted/install.sh" "$work/install.sh"
        # shellcheck disable=SC2086 # an empty option is none
        sh "$work/install.sh" --dir "$dir" $attested || exit
        made=
        exit
    fi

    top=teamwire-$version-$target
    echo "Downloading teamwire $version for $target."
    download "$downloads/v$version/$top.tar.gz" "$work/archive"
    found=$(sum "$work/archive") || exit
    if [ "$found" != "$expected" ]; then
        fail "$top.tar.gz has the sum $found, and not $expected: it was changed or cut on its way" \
            "run the script again. If the sum stays wrong, do not use the file, and report it"
    fi
    attest "$work/archive"
    if ! errors=$(tar -xzf "$work/archive" -C "$work" "$top/teamwire" 2>&1); then
        fail "could not unpack $top.tar.gz in $dir: $errors" \
            "free some space there, or choose another directory with --dir"
    fi
    chmod 755 "$work/$top/teamwire"
    if ! shown=$("$work/$top/teamwire" --version 2>&1 </dev/null); then
        fail "the program does not run here: $shown" "choose a directory from which programs may run with --dir"
    fi
    old=
    if [ -e "$program" ]; then
        old=$("$program" --version 2>/dev/null </dev/null) || old="a file that does not run"
    fi
    mv -f "$work/$top/teamwire" "$program" || fail "could not replace $program" "read the message above"
    made=

    if [ -n "$old" ]; then
        echo "Replaced $old with $shown: $program"
    else
        echo "Installed $shown: $program"
    fi
    case :$PATH: in
        *:"$dir":*)
            first=$(command -v teamwire)
            [ "$first" = "$program" ] || echo "Your PATH has another teamwire first: $first"
            ;;
        *) echo "$dir is not in your PATH. This adds it: $(path_line)" ;;
    esac
    echo "To remove it: rm $program"
}

main "$@"
