# Functions of the guard, a process that restores the former file if no user confirms the change in time.

guard7= guard8= guard9= # the process ID and the token of each guard whose pipe this shell holds by that descriptor

make_room() { # makes the directory of a guard, and prints its name, the token
    for tool in setsid timeout mkfifo; do
        command -v "$tool" >/dev/null || no "$REFUSED" "$tool is not there" || return
    done
    pipe_of || no "$REFUSED" 'three guards of this connection are running already' || return
    made=$(mktemp -d "$ROOMS/ibkeys-guard-XXXXXXXXXXXXXXXX") && mkfifo "$made/cut" "$made/hello" && echo " ${made##*/}"
}

room_of() { # TOKEN: sets room to the directory of the guard
    case ${1#ibkeys-guard-} in "$1" | '' | *[!A-Za-z0-9]*) no "$REFUSED" 'is no guard' || return ;; esac
    room=$ROOMS/$1
    [ -d "$room" ] && ! [ -L "$room" ] || return "$GONE"
    [ "$(stat -c %u -- "$room")" = "$(id -u)" ] || no "$REFUSED" 'is the guard of another user'
}

keep() { # TOKEN NAME DATA: appends bytes to a file in the directory
    room_of "$1" && printf %s "$3" | base64 -d >>"$room/$2"
}

note() { # TOKEN SUM: lets the guard replace the contents with this checksum
    room_of "$1" && ! [ -L "$room/decided" ] || return "$GONE"
    echo "$2" >>"$room/texts"
}

watch() { # TOKEN SECONDS PID+TICKS+UNIT SUM PATH: starts the guard; this shell keeps its pipe open
    room_of "$1" || return
    [ "$(sum "$room/former")" = "$4" ] || no "$FAILED" 'what arrived is not what was sent' || return
    pipe_of || return
    eval "exec $number<>\"\$room/cut\""
    setsid /bin/sh "$room/program" guard "$room" "$2" "$3" "$4" "$5" \
        4>&- 5>&- 6>&- 7>&- 8>&- 9>&- 8<"$room/cut" </dev/null >/dev/null 2>&1 &
    read -r guard <"$room/hello" && eval "guard$number=\"\$guard $1\"" && echo " $guard"
}

pipe_of() { # [TOKEN]: sets number to the descriptor of that guard's pipe, and guard to its process ID; else a free one
    for number in 7 8 9; do
        eval "held=\$guard$number"
        guard=${held% *}
        if [ "${held#* }" = "${1-}" ]; then return; fi
    done
    return "$GONE"
}

keep_guards() { # sends each guard that still waits for its last word a keep-alive
    [ -z "$guard7" ] || printf a >&7
    [ -z "$guard8" ] || printf a >&8
    [ -z "$guard9" ] || printf a >&9
}

last_word() { # TOKEN BYTE: sends the guard its last byte through the pipe, and closes it
    if pipe_of "$1"; then eval "printf %s $2 >&$number; exec $number>&-; guard$number="; fi
}

wait_for_word() { # TOKEN: whether the time within which the user must confirm can start
    pipe_of "$1" && text=$(cat "/proc/$guard/stat" 2>/dev/null) && [ "${text##*) Z *}" ] && room_of "$1" &&
        ! [ -L "$room/decided" ] || return "$GONE"
}

decide() { # TOKEN: keeps the change, unless the guard has decided to roll back
    room_of "$1" || return
    ln -s kept "$room/decided" 2>/dev/null || [ "$(readlink "$room/decided")" = kept ] || return "$GONE"
    rm -rf -- "$room"
}

up() { # prints the hundredths of a second since the host booted
    read -r since _ </proc/uptime && echo "${since%.*}${since#*.}"
}

back() { # restores the former file, if the present contents are ones that ibkeys wrote
    now=$(sum "$path") || return "$FAILED"
    if [ "$now" = "$former" ]; then return; fi
    grep -qsxF -- "$now" "$room/texts" || return "$REFUSED"
    found=$(marks "$path") || return "$FAILED"
    if [ "$former" = - ]; then
        remove "$path" "$found" "$now"
        return
    fi
    part=$folder/.$base.ibkeys-$$-$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n').part
    if [ "$found" = - ]; then mode=644; else mode=-; fi
    begin && cat "$room/former" >>"$part" && or_clear put "$path" "$former" "$found" "$now" "$mode"
}

log() { # WORDS: writes them to syslog
    if command -v logger >/dev/null; then timeout 10 logger -t ibkeys -- "$1"; fi
}

tell() { # PID TICKS UNIT: sends SIGHUP to this OpenSM, or to the one that its unit runs now
    hup "$1" "$2" "$3" && return
    [ "$3" != - ] && main=$(main_of "$3") && [ "$(cat "/proc/$main/comm")" = opensm ] && hup_unit "$3"
}

split() { # PATH: sets path, folder and base
    path=$1 base=${1##*/} folder=${1%/*}
    folder=${folder:-/}
}

live() { # ROOM SECONDS PID+TICKS+UNIT SUM PATH: the guard process
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
            log "not confirmed: $path is the former one$said"
            ;;
        "$REFUSED") log "not confirmed, but another user or program changed $path: it is left unchanged" ;;
        *) log "not confirmed, but $path cannot be given back" ;;
        esac
    fi
    rm -rf -- "$room"
}

if [ "${1-}" = guard ]; then
    shift
    live "$@"
    exit
fi
