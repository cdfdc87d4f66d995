# --- OpenSM -----------------------------------------------------------------------------------------------------------

is_it() { # PID TICKS: the process of that ID is the one that started then
    text=$(cat "/proc/$1/stat" 2>/dev/null) || return
    set -- "$2" ${text##*)}
    [ "${21}" = "$1" ]
}

is_still() { # PID TICKS
    is_it "$1" "$2" || no "$REFUSED" 'is no longer the OpenSM that was examined'
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
