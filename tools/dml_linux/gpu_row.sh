#!/bin/sh
# Measures a row of results on the device of a rig that was unpacked, without network. Run it as root:
#   sh DIR/gpu_row.sh DIR RESULTS [STEP...]
# STEPs: doctor standard directml fuzz bench bench-directml bundle; all of them without a name. Each ends within nine minutes. A step
# that is done is skipped; one that has not ended goes on where it was, when the script is called again. A step that fails leaves
# the results of the others. LIMIT: most seconds of a step (default: 520). PYTHON: the host's Python, of the version that the pack is
# for (default: python3).
set -u
alone=no
if [ "${1-}" = --alone ]; then alone=yes; shift; fi
[ $# -ge 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
rig=$(cd "$1" && pwd) || exit 2
mkdir -p "$2" || exit 2
out=$(cd "$2" && pwd)
shift 2
python=${PYTHON:-python3}
dml_linux() { "$python" "$rig/dml_linux.py" "$@"; }

# validate NAME OPTION...: into the bundle $out/NAME/bundle, which an earlier call may have begun
validate() {
    if [ -e "$out/$1/bundle/run.json" ]; then set -- "$@" --resume "$out/$1/bundle"; else set -- "$@" --report "$out/$1/bundle"; fi
    shift
    dml_linux opmap "$rig" validate --require-provider "$@"
}

doctor() { dml_linux doctor "$rig" && dml_linux opmap "$rig" doctor; }
standard() { validate standard --provider dml --tier standard; }
directml() { validate directml --provider directml --tier standard; }
fuzz() { dml_linux opmap "$rig" fuzz --provider dml --seconds 300 --report "$out/fuzz/finds"; }
bench() {
    PYTHONPATH="$rig/linux" "$python" "$rig/tools/bench" --part directml --rounds 1 --cases 500 --dml-runtime "$rig" --json
}
bench_directml() { dml_linux run --timeout 530 "$rig" python measure_directml.py; }
bundle() { tar -C "$out" -czf "$out.tar.gz.new" . && mv "$out.tar.gz.new" "$out.tar.gz" && echo "$out.tar.gz"; }

# A run with failures (exit code 1) has ended too. 124: `timeout` has ended it.
step() {
    if [ -e "$out/$1/done" ]; then echo "$1: there"; return; fi
    mkdir -p "$out/$1"
    began=$(date +%s)
    timeout --kill-after 20 "${LIMIT:-520}" sh "$0" --alone "$rig" "$out" "$1" >"$out/$1/log.txt" 2>&1
    code=$?
    echo "$code" >"$out/$1/code"
    case $1:$code in *:0 | standard:1 | directml:1 | fuzz:1) touch "$out/$1/done" ;; esac
    echo "$1: exit code $code after $(($(date +%s) - began)) s ($out/$1/log.txt)"
}

if [ "$alone" = yes ]; then
    case $1 in bench-directml) bench_directml ;; *) "$1" ;; esac
    exit
fi
[ $# -gt 0 ] || set -- doctor standard directml fuzz bench bench-directml bundle
for name in "$@"; do
    case $name in
        bundle) bundle ;;
        doctor | standard | directml | fuzz | bench | bench-directml) step "$name" ;;
        *) echo "gpu_row.sh: no step $name" >&2; exit 2 ;;
    esac
done
dml_linux down "$rig"
