# Functions that signal, stop and start an OpenSM.

is_it() { # PID TICKS: whether the process with this ID started at that time
    text=$(cat "/proc/$1/stat" 2>/dev/null) || return
    set -- "$2" ${text##*)}
    [ "${21}" = "$1" ]
}

is_still() { # PID TICKS: the same, with the reason if not
    is_it "$1" "$2" || no "$REFUSED" 'is no longer the OpenSM that was examined'
}

main_of() { # UNIT: prints the ID of its main process
    main=$(timeout 10 systemctl --no-ask-password show --property=MainPID -- "$1" 2>/dev/null) && echo "${main#MainPID=}"
}

hup_unit() { # UNIT: lets systemd send SIGHUP to its main process
    timeout 10 systemctl --no-ask-password kill --signal=HUP --kill-who=main -- "$1" >/dev/null 2>&1
}

may_hup() { # PID TICKS: whether this user may signal the process
    is_still "$1" "$2" || return
    kill -0 "$1" 2>/dev/null || no "$REFUSED" "may not be signalled by this user (UID $(id -u))"
}

is_main() { # PID UNIT: whether it is the main process of the unit
    [ "$2" != - ] && [ "$(main_of "$2")" = "$1" ]
}

hup() { # PID TICKS UNIT: sends SIGHUP, by systemd if it can
    is_still "$1" "$2" || return
    if is_main "$1" "$3" && hup_unit "$3"; then return; fi
    may_hup "$1" "$2" || return
    kill -s HUP "$1"
}

has_unit() { # PID TICKS UNIT: prints "unit" if it is the main process of the unit
    is_still "$1" "$2" || return
    if is_main "$1" "$3"; then echo ' unit'; fi
}

unit() { # VERB UNIT OPTION...: calls systemctl; its text is the reason of a failure
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

stop() { # PID TICKS UNIT: if systemd refuses, no signal is sent: systemd might start the process again
    is_still "$1" "$2" || return
    if is_main "$1" "$3"; then
        unit stop "$3" --no-block
        return
    fi
    may_hup "$1" "$2" || return
    kill -s TERM "$1"
}

start() { # UNIT: lets systemd start it
    unit start "$1"
}
