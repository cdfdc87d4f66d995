# Changes on this host what it is asked to, one question on each line of standard input, until that ends: it puts one
# file in the place of another, sends an OpenSM a SIGHUP, and leaves a guard behind that gives a file back.
#
# A question is a word, four words more ("-" where one is not needed) and an absolute path. An answer is lines that begin
# with a blank, then "." or, where it failed, "!", a word, and what a command said. Bytes of files arrive in base64, so
# that none of them is taken for anything else, and count only if their SHA-256 is right.
#
# A file is complete and on disk beside the old one before it takes its place by one rename. Until then it has a name
# that ends in .part, so that a left-over is known by its name alone.
LC_ALL=C TZ=UTC PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL TZ PATH
ROOMS=/tmp QUIET=900
DONE=0 FAILED=1 CHANGED=3 UNSYNCED=4 REFUSED=5 GONE=6
umask 077
set -f
cd /
trap '' PIPE HUP

run() { # COMMAND...: its output is the answer; its status, and what it says on standard error, how it ended
    { said=$("$@" 2>&1 >&3); } 3>&1
    case $? in
    "$DONE") echo . ;;
    "$CHANGED") echo '! changed' ;;
    "$UNSYNCED") echo "! unsynced $(first "$said")" ;;
    "$REFUSED") echo "! refused $(first "$said")" ;;
    "$GONE") echo '! gone' ;;
    *) echo "! failed $(first "$said")" ;;
    esac
}

first() { # TEXT: its first line
    printf '%s\n' "$1" | head -n 1
}

no() { # STATUS WORDS: the reason on standard error
    echo "$2" >&2
    return "$1"
}

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

begin() { # an empty file beside, which nobody else may read
    (set -C && : >"$part")
}

fill() { # DATA: more bytes of it
    printf %s "$1" | base64 -d >>"$part"
}

look_of() { # PATH: mode, owner, label, and whether there is an ACL
    stat -c %f:%u:%g:%C -- "$1" 2>/dev/null
    ls -ld -- "$1" | cut -c 1-11
}

put() { # PATH SUM MARKS OLD MODE: what is beside has that SUM; it takes the place of what was seen (MARKS, OLD)
    [ "$(sum "$part")" = "$2" ] || no "$FAILED" 'what arrived is not what was sent' || return
    is_seen "$1" "$3" "$4" || return "$CHANGED"
    if [ "$3" = - ]; then
        chmod -- "$5" "$part" || return "$FAILED"
    else
        cp -a --attributes-only -- "$1" "$part" && touch -- "$part" || return "$FAILED"
        [ "$(look_of "$1")" = "$(look_of "$part")" ] ||
            no "$FAILED" 'the new file cannot be given owner, mode, ACL or label of the old one' || return
    fi
    sync -- "$part" || return "$FAILED"
    is_seen "$1" "$3" "$4" || return "$CHANGED"
    if [ "$3" = - ]; then
        ln -T -- "$part" "$1" || return "$FAILED"
        rm -f -- "$part"
    else
        mv -fT -- "$part" "$1" || return "$FAILED"
    fi
    sync -- "$folder" || return "$UNSYNCED"
}

put_or_clear() { # as put; nothing is left beside
    put "$@"
    status=$?
    rm -f -- "$part"
    return "$status"
}

remove() { # PATH MARKS OLD
    is_seen "$1" "$2" "$3" || return "$CHANGED"
    rm -f -- "$1" || return "$FAILED"
    sync -- "$folder" || return "$UNSYNCED"
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
    if [ -f "$1" ]; then echo " own $(mount_of "$1")"; fi
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

# --- OpenSM -----------------------------------------------------------------------------------------------------------

is_it() { # PID TICKS: the process of that ID is the one that started then
    text=$(cat "/proc/$1/stat" 2>/dev/null) || return
    set -- "$2" ${text##*)}
    [ "${21}" = "$1" ]
}

is_still() { # PID TICKS
    is_it "$1" "$2" || no "$REFUSED" 'is not the OpenSM any more that was looked at'
}

main_of() { # UNIT: its main process
    main=$(timeout 10 systemctl --no-ask-password show --property=MainPID -- "$1" 2>/dev/null) && echo "${main#MainPID=}"
}

hup_unit() { # UNIT
    timeout 10 systemctl --no-ask-password kill --signal=HUP --kill-who=main -- "$1" >/dev/null 2>&1
}

may_hup() { # PID TICKS
    is_still "$1" "$2" || return
    kill -0 "$1" 2>/dev/null || no "$REFUSED" "may not be signalled by this user (UID $(id -u))"
}

is_main() { # PID UNIT: the process is the main one of that unit
    [ "$2" != - ] && [ "$(main_of "$2")" = "$1" ]
}

hup() { # PID TICKS UNIT
    is_still "$1" "$2" || return
    if is_main "$1" "$3" && hup_unit "$3"; then return; fi
    may_hup "$1" "$2" || return
    kill -s HUP "$1"
}

has_unit() { # PID TICKS UNIT
    is_still "$1" "$2" || return
    if is_main "$1" "$3"; then echo ' unit'; fi
}

unit() { # VERB UNIT OPTION...: what systemctl says where it does not do it is the reason
    verb=$1 name=$2
    shift 2
    told=$(timeout 15 systemctl --no-ask-password "$verb" "$@" -- "$name" 2>&1)
    how=$?
    case $how in
    0) ;;
    124) no "$REFUSED" "systemctl $verb $name: has not ended after 15 seconds" ;;
    *) no "$REFUSED" "systemctl $verb $name: ${told:-it ended with status $how}" ;;
    esac
}

stop() { # PID TICKS UNIT: where systemd refuses nothing is sent, because it might start the process again
    is_still "$1" "$2" || return
    if is_main "$1" "$3"; then
        unit stop "$3" --no-block
        return
    fi
    may_hup "$1" "$2" || return
    kill -s TERM "$1"
}

start() { # UNIT
    unit start "$1"
}

# --- who goes back when nobody confirms -------------------------------------------------------------------------------

make_room() {
    for tool in setsid timeout mkfifo; do
        command -v "$tool" >/dev/null || no "$REFUSED" "$tool is not there" || return
    done
    made=$(mktemp -d "$ROOMS/ibkeys-guard-XXXXXXXXXXXXXXXX") && mkfifo "$made/cut" "$made/hello" && echo " ${made##*/}"
}

room_of() { # TOKEN: sets room
    case ${1#ibkeys-guard-} in "$1" | '' | *[!A-Za-z0-9]*) no "$REFUSED" 'is no guard' || return ;; esac
    room=$ROOMS/$1
    [ -d "$room" ] && ! [ -L "$room" ] || return "$GONE"
    [ "$(stat -c %u -- "$room")" = "$(id -u)" ] || no "$REFUSED" 'is the guard of another user'
}

keep() { # TOKEN NAME DATA: more bytes of a file in the room
    room_of "$1" && printf %s "$3" | base64 -d >>"$room/$2"
}

note() { # TOKEN SUM: of a text that it may take back
    room_of "$1" && ! [ -L "$room/decided" ] || return "$GONE"
    echo "$2" >>"$room/texts"
}

watch() { # TOKEN SECONDS PID+TICKS+UNIT SUM PATH: starts the guard; in this shell, which holds its pipe
    room_of "$1" || return
    [ "$(sum "$room/former")" = "$4" ] || no "$FAILED" 'what arrived is not what was sent' || return
    exec 9<>"$room/cut"
    setsid /bin/sh "$room/program" guard "$room" "$2" "$3" "$4" "$5" \
        9>&- 8<"$room/cut" </dev/null >/dev/null 2>&1 &
    read -r guard <"$room/hello" && echo " $guard"
}

say_to_guard() { # BYTE
    if [ -n "$guard" ]; then printf %s "$1" >&9; fi
}

wait_for_word() { # TOKEN
    text=$(cat "/proc/$guard/stat" 2>/dev/null) && [ "${text##*) Z *}" ] && room_of "$1" && ! [ -L "$room/decided" ] ||
        return "$GONE"
    say_to_guard w
}

decide() { # TOKEN: nothing is given back; of this and the guard's own decision only one can be made
    room_of "$1" || return
    ln -s kept "$room/decided" 2>/dev/null || [ "$(readlink "$room/decided")" = kept ] || return "$GONE"
    rm -rf -- "$room"
}

up() { # hundredths of a second since the host booted
    read -r since _ </proc/uptime && echo "${since%.*}${since#*.}"
}

back() { # gives the former file back if one is there that we wrote
    now=$(sum "$path") || return "$FAILED"
    if [ "$now" = "$former" ]; then return; fi
    grep -qsxF -- "$now" "$room/texts" || return "$REFUSED"
    found=$(marks "$path") || return "$FAILED"
    if [ "$former" = - ]; then
        remove "$path" "$found" "$now"
        return
    fi
    part=$folder/.$base.ibkeys-$$-$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n').part
    begin && cat "$room/former" >>"$part" && put_or_clear "$path" "$former" "$found" "$now" 0644
}

log() { # WORDS
    if command -v logger >/dev/null; then timeout 10 logger -t ibkeys -- "$1"; fi
}

tell() { # PID TICKS UNIT: this OpenSM, or the one that its unit has now
    hup "$1" "$2" "$3" && return
    [ "$3" != - ] && main=$(main_of "$3") && [ "$(cat "/proc/$main/comm")" = opensm ] && hup_unit "$3"
}

split() { # PATH: sets path, folder and base
    path=$1 base=${1##*/} folder=${1%/*}
    folder=${folder:-/}
}

live() { # ROOM SECONDS PID+TICKS+UNIT SUM PATH
    room=$1 former=$4
    split "$5"
    rest=${3#*+}
    trap '' HUP INT
    echo "$$" >"$room/hello"
    while heard=$(timeout "$QUIET" dd bs=1 count=1 <&8 2>/dev/null) && [ "$heard" = a ]; do :; done
    exec 8<&-
    end=$(($(up) + $2 * 100))
    while [ -d "$room" ] && ! [ -L "$room/decided" ] && [ "$(up)" -lt "$end" ]; do sleep 1; done
    if ln -s back "$room/decided" 2>/dev/null && [ -e "$room/texts" ]; then
        tries=30
        while :; do
            back
            how=$?
            tries=$((tries - 1))
            case $how in "$FAILED" | "$CHANGED") [ "$tries" -gt 0 ] && sleep 1 && continue ;; esac
            break
        done
        case $how in
        "$DONE" | "$UNSYNCED")
            tell "${3%%+*}" "${rest%%+*}" "${rest#*+}" && said= || said=', but OpenSM could not be told'
            log "nobody confirmed: $path is the former one$said"
            ;;
        "$REFUSED") log "nobody confirmed, but somebody else changed $path: it stays as it is" ;;
        *) log "nobody confirmed, but $path cannot be given back" ;;
        esac
    fi
    rm -rf -- "$room"
}

if [ "${1-}" = guard ]; then
    shift
    live "$@"
    exit
fi

# --- the conversation -------------------------------------------------------------------------------------------------

part= guard= token= data=
trap '[ -z "$part" ] || rm -f -- "$part"' EXIT
trap 'exit 1' INT TERM
echo ibkeys-host-writer-1
while IFS= read -r line; do
    question=${line%% *} rest=${line#* }
    a=${rest%% *} rest=${rest#* }
    b=${rest%% *} rest=${rest#* }
    c=${rest%% *} rest=${rest#* }
    d=${rest%% *}
    split "${rest#* }"
    case $question in
    begin) part=$folder/.$base.ibkeys-$$-$a.part ;;
    fill | keep) data=$(head -c "$a") ;;
    esac
    case $question in
    over | waiting) ;;
    *) say_to_guard a ;;
    esac
    case $question in
    seen | real | target) run "$question" "$path" ;;
    users | begin | left | make_room) run "$question" ;;
    ground) run ground "$path" ;;
    fill) run fill "$data" ;;
    put) run put_or_clear "$path" "$a" "$b" "$c" "$d" ;;
    remove) run remove "$path" "$a" "$b" ;;
    drop) run drop "$a" ;;
    may_hup) run may_hup "$a" "$b" ;;
    hup | stop | has_unit) run "$question" "$a" "$b" "$c" ;;
    start) run start "$a" ;;
    keep) run keep "$b" "$c" "$data" ;;
    note) run note "$a" "$b" ;;
    alive) echo . ;;
    watch)
        token=$a
        if watch "$a" "$b" "$c" "$d" "$path" 2>/dev/null; then echo .; else echo '! refused it did not start'; fi
        ;;
    waiting) run wait_for_word "$a" && guard= ;;
    over)
        run decide "$a"
        if [ "$a" = "$token" ]; then say_to_guard o && guard=; fi
        ;;
    *) echo '! failed' ;;
    esac
done
