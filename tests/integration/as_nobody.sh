#!/bin/sh
# Runs a command as the user nobody. A checkout in a home that only its owner may enter is reached through a mount of
# this command alone. Arguments: the checkout, the command.
set -eu
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent"
checkout=$1
shift
# shellcheck disable=SC2086
if ! $nobody test -r "$checkout/pyproject.toml"; then
    if [ "${AS_NOBODY_APART-}" != yes ]; then
        exec env AS_NOBODY_APART=yes unshare -m sh "$0" "$checkout" "$@"
    fi
    exec 9<"$checkout"
    home=$(printf '%s' "$checkout" | cut -d / -f 1-2)
    mount -t tmpfs -o mode=755 tmpfs "$home"
    mkdir -p "$checkout"
    mount --no-canonicalize --bind /proc/self/fd/9 "$checkout"
    exec 9<&-
fi
unset AS_NOBODY_APART
# shellcheck disable=SC2086
exec $nobody "$@"
