# --- files ------------------------------------------------------------------------------------------------------------

sum() { # PATH: the SHA-256 of a regular file; "-" where there is nothing
    if [ -e "$1" ] || [ -L "$1" ]; then
        [ -f "$1" ] && all=$(sha256sum <"$1") && echo "${all%% *}"
    else
        echo -
    fi
}

marks() { # PATH: what tells this file, as it is now, from any other; "-" where there is nothing
    if [ -e "$1" ] || [ -L "$1" ]; then
        stat -c %f:%u:%g:%s:%d:%i:%h:%Y:%y -- "$1" | tr ' ' _
    else
        echo -
    fi
}

seen() { # PATH
    found=$(marks "$1") && echo " $found"
}

hex() { # TEXT, which ends in a mark that is not part of it
    printf %s "${1%x}" | od -An -v -tx1
}

real() { # PATH: where a folder is, links followed
    text=$(readlink -en -- "$1" && printf x) && hex "$text"
}

target() { # PATH: where a symbolic link leads to
    text=$(readlink -n -- "$1" && printf x) && hex "$text"
}

users() {
    echo " $(id -u) ${SUDO_UID:--}"
}

is_seen() { # PATH MARKS SUM: the file there, or that there is none, is what was seen
    [ "$(marks "$1")" = "$2" ] && [ "$(sum "$1")" = "$3" ]
}

begin() { # an empty file beside, which no other user may read
    (set -C && : >"$part")
}

fill() { # DATA: more bytes of it
    printf %s "$1" | base64 -d >>"$part" && return
    clear
    return "$FAILED"
}

mode() { # PATH
    stat -c %a -- "$1"
}

acl() { # PATH: "+" where there is one
    ls -ld -- "$1" | cut -c 11 | tr -d ' .'
}

look_of() { # PATH: owner, label, and whether there is an ACL
    stat -c %u:%g:%C -- "$1" 2>/dev/null
    acl "$1"
}

dress() { # PATH MODE: what is beside gets owner, label and attributes of the file there, and that mode; "-": its mode
    if [ "$2" = - ]; then
        wanted=$(mode "$1") && cp -a --attributes-only -- "$1" "$part"
    else
        wanted=$2
        cp -a --no-preserve=mode --attributes-only -- "$1" "$part" && chmod -- "$2" "$part"
    fi && touch -- "$part" || return "$FAILED"
    [ "$(look_of "$1") $wanted" = "$(look_of "$part") $(mode "$part")" ] ||
        no "$FAILED" 'the new file cannot be given owner, mode, ACL or label of the old one'
}

give() { # MODE, or MODE:OWNER: what is beside, in the place of nothing, gets them; another owner with the folder's group
    case $1 in
    *:"$(id -u)") ;;
    *:*) chown -h -- "${1#*:}:$(stat -c %g -- "$folder")" "$part" || return ;;
    esac
    chmod -- "${1%%:*}" "$part"
}

ready() { # PATH SUM MARKS OLD MODE: what is beside has that SUM; it gets what the file there has (MARKS, OLD), on disk
    [ "$(sum "$part")" = "$2" ] || no "$FAILED" 'what arrived is not what was sent' || return
    is_seen "$1" "$3" "$4" || return "$CHANGED"
    if [ "$3" = - ]; then
        give "$5" || return "$FAILED"
    else
        dress "$1" "$5" || return
    fi
    sync -- "$part" || return "$FAILED"
}

place() { # PATH MARKS OLD: what is beside takes the place of what was seen
    is_seen "$1" "$2" "$3" || return "$CHANGED"
    if [ "$2" = - ]; then
        ln -T -- "$part" "$1" || return "$FAILED"
        rm -f -- "$part"
    else
        mv -fT -- "$part" "$1" || return "$FAILED"
    fi
    sync -- "$folder" || return "$UNSYNCED"
}

put() { # PATH SUM MARKS OLD MODE: both at once
    ready "$@" && place "$1" "$3" "$4"
}

clear() { # what is beside and is not to take any place
    [ -z "$part" ] || rm -f -- "$part"
}

ended() { # the program ends: a signal does not stop it before nothing is left beside
    trap '' INT TERM
    clear
    [ -z "$draft" ] || rm -f -- "$draft"
}

or_clear() { # COMMAND...: nothing is left beside
    "$@"
    status=$?
    clear
    return "$status"
}

remove() { # PATH MARKS OLD
    is_seen "$1" "$2" "$3" || return "$CHANGED"
    rm -f -- "$1" || return "$FAILED"
    sync -- "$folder" || return "$UNSYNCED"
}

set_mode() { # PATH SEEN MODE: only the very file or folder that was seen, with the mode and the owner that it had
    { [ -f "$1" ] || [ -d "$1" ]; } && ! [ -L "$1" ] || return "$CHANGED"
    (
        exec 7<"$1" || exit "$FAILED"
        [ "$(stat -L -c %a:%u:%g:%d:%i /proc/self/fd/7)" = "$2" ] || exit "$CHANGED"
        chmod -- "$3" /proc/self/fd/7 || exit "$FAILED"
        has=$(stat -L -c %a /proc/self/fd/7) && [ "$has" = "$3" ] || no "$FAILED" "it has mode $has now"
    )
}

mount_of() { # PATH: the kernel's number of the mount that it is on
    (exec 7<"$1" && while read -r key value; do [ "$key" != mnt_id: ] || echo "$value"; done </proc/self/fdinfo/7) \
        2>/dev/null
}

ground() { # PATH: what may stand in the way of replacing it
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

is_ours() { # TAIL: of a name beside: the process that made it, 16 digits, and .part where it is not complete
    key=${1%.part}
    maker=${key%%-*} digits=${key#*-}
    case $maker in '' | *[!0-9]*) return 1 ;; esac
    case $digits in *[!0-9a-f]*) return 1 ;; esac
    [ "${#digits}" -eq 16 ] && ! [ -d "/proc/$maker" ]
}

left() { # what lies beside that a run of ibkeys made which has ended
    set +f
    for each in "$folder/.$base.ibkeys-"*; do
        tail=${each#"$folder/.$base.ibkeys-"}
        if is_ours "$tail" && [ -f "$each" ] && ! [ -L "$each" ]; then echo " $tail $(sum "$each")"; fi
    done
}

drop() { # TAIL
    is_ours "$1" || no "$REFUSED" 'is no left-over' || return
    rm -f -- "$folder/.$base.ibkeys-$1" && sync -- "$folder"
}
