#!/bin/sh
# Starts the launcher. `up` and `prepare` need programs that a plain Debian may lack; all that are missing are named in
# one line before anything is done. Builtins of the shell only: nothing else is known to be there.
set -eu
verb=${1:-up}
here=${0%/*}
cd "$here/../.."
PYTHON=${PYTHON:-python3}

packages=""
need() { # need PROGRAM PACKAGE
    command -v "$1" >/dev/null 2>&1 || packages="$packages $2"
}

if "$PYTHON" -c '' >/dev/null 2>&1; then
    if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        found=$("$PYTHON" -c 'import platform; print(platform.python_version())')
        echo "headworks: Python 3.11 or later is needed, and $PYTHON is $found. Install a newer one and name it: make $verb PYTHON=python3.11" >&2
        exit 1
    fi
    if [ "$verb" = up ] || [ "$verb" = prepare ] || [ "$verb" = demo ]; then
        "$PYTHON" -c 'import ensurepip, venv' >/dev/null 2>&1 || packages="$packages python3-venv"
    fi
else # not there, or only a wrapper that finds no interpreter: Debian's own mends both
    packages="$packages python3 python3-venv"
fi
if [ "$verb" = up ] || [ "$verb" = prepare ] || [ "$verb" = demo ]; then
    need node nodejs
    need npm npm
    case " $(command -v unshare || :) $(command -v setpriv || :) " in
    *unshare*setpriv*) ;;
    *) packages="$packages util-linux" ;;
    esac
    # the engine's CPU build is linked with these two; PyTorch and PostgreSQL need nothing else
    has_library() {
        for folder in /lib /usr/lib /lib64 /usr/lib64 /lib/*-linux-gnu /usr/lib/*-linux-gnu /usr/local/lib; do
            if [ -e "$folder/$1" ]; then return 0; fi
        done
        return 1
    }
    has_library libnuma.so.1 || packages="$packages libnuma1"
    has_library libstdc++.so.6 || packages="$packages libstdc++6"
fi
if [ -n "$packages" ]; then
    sudo=""
    [ "$(id -u 2>/dev/null || echo 0)" = 0 ] || sudo="sudo "
    echo "headworks: some programs are missing. Install them and run make $verb again:" >&2
    echo "    ${sudo}apt-get install -y$packages" >&2
    exit 1
fi
exec "$PYTHON" -m controlplane.embedded "$@"
