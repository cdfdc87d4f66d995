# Answers questions about this host, one on each line of standard input, until that ends. Changes nothing.
#
# A question is a word, a number and an absolute path. An answer is lines that begin with a blank, then "." or, where it
# failed, "!" and the reason. Contents, links and the path of a file are in hex, so that no byte of a file, and no newline
# in a name, is taken for anything else.
LC_ALL=C TZ=UTC PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL TZ PATH

run() { # COMMAND...: its output is the answer; the reason of a failure is in what it says on standard error
    if { said=$("$@" 2>&1 >&3); } 3>&1; then
        echo .
        return
    fi
    case $said in
    *'No such file'* | *'Not a directory'*) echo '! absent' ;;
    *'Permission denied'* | *'not permitted'*) echo '! denied' ;;
    *) echo '! failed' ;;
    esac
}

content() { # PATH LIMIT: a regular file, and one byte more than LIMIT where it is longer
    od -An -v -tx1 -N "$(($2 + 1))" "$1"
}

status() { # PATH: the file that it leads to, the path of that, and each directory above it, from the nearest
    stat -L -c ' %f %u %g %s %d %i %Y %Z %y|%z' "$1" || return
    real=$(readlink -f "$1")
    [ "$real" -ef "$1" ] || real=$1
    echo " $(printf %s "$real" | od -An -v -tx1 | tr -d ' \n')"
    set --
    while [ "$real" != / ]; do
        real=${real%/*}
        real=${real:-/}
        set -- "$@" "$real"
    done
    [ $# -eq 0 ] || stat -L -c ' %f %u' "$@"
}

target() { # PATH: where a symbolic link leads to
    text=$(readlink -v "$1") && printf %s "$text" | od -An -v -tx1
}

names() { # PATH: of a directory
    text=$(ls -A "$1/") && { [ -z "$text" ] || printf '%s\n' "$text" | sed 's/^/ /'; }
}

processes() { # PROC: the processes whose program is called opensm
    grep -lsx opensm "$1"/[0-9]*/comm | sed 's/^/ /'
}

clock() { # seconds since the host booted, and since 1970
    read -r up _ </proc/uptime && echo " $up $(date +%s.%N)"
}

user() {
    echo " $(id -u)"
}

echo ibkeys-host-reader-1
while IFS= read -r line; do
    question=${line%% *} rest=${line#* }
    limit=${rest%% *} path=${rest#* }
    case $question in
    content) if [ -e "$path" ] && ! [ -f "$path" ]; then echo '! no file'; else run content "$path" "$limit"; fi ;;
    status | target | names | processes | clock | user) run "$question" "$path" ;;
    *) echo '! failed' ;;
    esac
done
