# Functions that read, replace and remove files.

sum() { # PATH: prints the SHA-256 of a regular file; "-" if there is no file
    if [ -e "$1" ] || [ -L "$1" ]; then
        [ -f "$1" ] && all=$(sha256sum <"$1") && echo "${all%% *}"
    else
        echo -
    fi
}

marks() { # PATH: prints the status of a file, by which a changed file is recognised; "-" if there is no file
    if [ -e "$1" ] || [ -L "$1" ]; then
        stat -c %f:%u:%g:%s:%d:%i:%h:%Y:%y -- "$1" | tr ' ' _
    else
        echo -
    fi
}

seen() { # PATH
    found=$(marks "$1") && echo " $found"
}

hex() { # TEXT: prints its bytes in hex, without the x at its end
    printf %s "${1%x}" | od -An -v -tx1
}

real() { # PATH: prints the real path of a folder, with all symbolic links followed
    text=$(readlink -en -- "$1" && printf x) && hex "$text"
}

target() { # PATH: prints the target of a symbolic link
    text=$(readlink -n -- "$1" && printf x) && hex "$text"
}

users() {
    echo " $(id -u) ${SUDO_UID:--}"
}

is_seen() { # PATH MARKS SUM: whether the file, or its absence, is as it was when it was read
    [ "$(marks "$1")" = "$2" ] && [ "$(sum "$1")" = "$3" ]
}

begin() { # makes an empty new file beside the old one, which no other user may read
    (set -C && : >"$part")
}

fill() { # DATA: appends bytes to the new file
    printf %s "$1" | base64 -d >>"$part" && return
    clear
    return "$FAILED"
}

mode() { # PATH: prints the permission bits
    stat -c %a -- "$1"
}

acl() { # PATH: prints "+" if the file has an ACL
    ls -ld -- "$1" | cut -c 11 | tr -d ' .'
}

look_of() { # PATH: prints owner, label, and whether there is an ACL
    stat -c %u:%g:%C -- "$1" 2>/dev/null
    acl "$1"
}

dress() { # PATH MODE: gives the new file owner, label and attributes of the old one, and MODE; "-": the old mode
    if [ "$2" = - ]; then
        wanted=$(mode "$1") && cp -a --attributes-only -- "$1" "$part"
    else
        wanted=$2
        cp -a --no-preserve=mode --attributes-only -- "$1" "$part" && chmod -- "$2" "$part"
    fi && touch -- "$part" || return "$FAILED"
    [ "$(look_of "$1") $wanted" = "$(look_of "$part") $(mode "$part")" ] ||
        no "$FAILED" 'the new file cannot be given owner, mode, ACL or label of the old one'
}

give() { # MODE, or MODE:OWNER: sets them for the new file if there is no old one; another owner gets the folder's group
    case $1 in
    *:"$(id -u)") ;;
    *:*) chown -h -- "${1#*:}:$(stat -c %g -- "$folder")" "$part" || return ;;
    esac
    chmod -- "${1%%:*}" "$part"
}

ready() { # PATH SUM MARKS OLD MODE: if the new file has the checksum SUM and the old one is as read, sets the metadata
    [ "$(sum "$part")" = "$2" ] || no "$FAILED" 'what arrived is not what was sent' || return
    is_seen "$1" "$3" "$4" || return "$CHANGED"
    if [ "$3" = - ]; then
        give "$5" || return "$FAILED"
    else
        dress "$1" "$5" || return
    fi
    sync -- "$part" || return "$FAILED"
}

place() { # PATH MARKS OLD: puts the new file in place of the old one, if this is as it was read
    is_seen "$1" "$2" "$3" || return "$CHANGED"
    if [ "$2" = - ]; then
        ln -T -- "$part" "$1" || return "$FAILED"
        rm -f -- "$part"
    else
        mv -fT -- "$part" "$1" || return "$FAILED"
    fi
    sync -- "$folder" || return "$UNSYNCED"
}

put() { # PATH SUM MARKS OLD MODE: ready and place
    ready "$@" && place "$1" "$3" "$4"
}

clear() { # removes the new file, if it is not in place
    [ -z "$part" ] || rm -f -- "$part"
}

ended() { # removes temporary files at the end of the program; a signal does not stop this
    trap '' INT TERM
    clear
    [ -z "$draft" ] || rm -f -- "$draft"
}

or_clear() { # COMMAND...: runs it, and removes the new file if it is not in place
    "$@"
    status=$?
    clear
    return "$status"
}

remove() { # PATH MARKS OLD: removes the file, if it is as it was read
    is_seen "$1" "$2" "$3" || return "$CHANGED"
    rm -f -- "$1" || return "$FAILED"
    sync -- "$folder" || return "$UNSYNCED"
}

set_mode() { # PATH SEEN MODE: only if it is the file or folder that was examined, with the same mode and owner
    { [ -f "$1" ] || [ -d "$1" ]; } && ! [ -L "$1" ] || return "$CHANGED"
    (
        exec 7<"$1" || exit "$FAILED"
        [ "$(stat -L -c %a:%u:%g:%d:%i /proc/self/fd/7)" = "$2" ] || exit "$CHANGED"
        chmod -- "$3" /proc/self/fd/7 || exit "$FAILED"
        has=$(stat -L -c %a /proc/self/fd/7) && [ "$has" = "$3" ] || no "$FAILED" "it has mode $has now"
    )
}

mount_of() { # PATH: prints the kernel's number of the mount that it is in
    (exec 7<"$1" && while read -r key value; do [ "$key" != mnt_id: ] || echo "$value"; done </proc/self/fdinfo/7) \
        2>/dev/null
}

ground() { # PATH: prints the facts of the file and its folder that can prevent replacing it
    echo " folder $(stat -c '%f %u %d' -- "$folder")"
    if [ -w "$folder" ] && [ -x "$folder" ]; then echo ' may write'; fi
    above=$(mount_of "$folder")
    echo " mount $above"
    while read -r number rest; do
        if [ "$number" = "$above" ]; then printf ' system %s\n' "$rest"; fi
    done </proc/self/mountinfo
    if [ -f "$1" ]; then
        echo " own $(mount_of "$1")"
        if [ -n "$(acl "$1")" ]; then echo ' acl there'; fi
    fi
    if command -v lsattr >/dev/null; then
        echo " folder-flags $(lsattr -d -- "$folder" 2>/dev/null | cut -d ' ' -f 1)"
        if [ -f "$1" ]; then echo " flags $(lsattr -d -- "$1" 2>/dev/null | cut -d ' ' -f 1)"; fi
    fi
}

is_ours() { # TAIL: whether it ends the name of a temporary file whose process (PID-16 digits) has ended
    key=${1%.part}
    maker=${key%%-*} digits=${key#*-}
    case $maker in '' | *[!0-9]*) return 1 ;; esac
    case $digits in *[!0-9a-f]*) return 1 ;; esac
    [ "${#digits}" -eq 16 ] && ! [ -d "/proc/$maker" ]
}

left() { # prints the temporary files of processes that have ended, with their checksums
    set +f
    for each in "$folder/.$base.ibkeys-"*; do
        tail=${each#"$folder/.$base.ibkeys-"}
        if is_ours "$tail" && [ -f "$each" ] && ! [ -L "$each" ]; then echo " $tail $(sum "$each")"; fi
    done
}

drop() { # TAIL: removes such a temporary file
    is_ours "$1" || no "$REFUSED" 'is no left-over' || return
    rm -f -- "$folder/.$base.ibkeys-$1" && sync -- "$folder"
}
