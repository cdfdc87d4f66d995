# The main loop: it reads a question from each line of standard input, and prints the answer.

part= draft= data=
trap ended EXIT
trap 'ended; exit 1' INT TERM
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
    fill | keep | take_lock) data=$(head -c "$a") ;;
    esac
    case $question in
    over | waiting) ;;
    *) keep_guards ;;
    esac
    case $question in
    seen | real | target) run "$question" "$path" ;;
    users | begin | left | make_room) run "$question" ;;
    ground) run ground "$path" ;;
    fill) run fill "$data" ;;
    put) run or_clear put "$path" "$a" "$b" "$c" "$d" ;;
    ready) run ready "$path" "$a" "$b" "$c" "$d" ;;
    place) run or_clear place "$path" "$a" "$b" ;;
    clear) run clear ;;
    remove) run remove "$path" "$a" "$b" ;;
    set_mode) run set_mode "$path" "$a" "$b" ;;
    drop) run drop "$a" ;;
    take_lock) take_lock "$b" "$c" ;;
    drop_lock) drop_lock ;;
    may_hup) run may_hup "$a" "$b" ;;
    hup | stop | has_unit) run "$question" "$a" "$b" "$c" ;;
    start) run start "$a" ;;
    keep) run keep "$b" "$c" "$data" ;;
    note) run note "$a" "$b" ;;
    alive) echo . ;;
    watch)
        if watch "$a" "$b" "$c" "$d" "$path" 2>/dev/null; then echo .; else echo '! refused it did not start'; fi
        ;;
    waiting)
        run wait_for_word "$a"
        last_word "$a" w
        ;;
    over)
        run decide "$a"
        last_word "$a" o
        ;;
    *) echo '! failed' ;;
    esac
done
