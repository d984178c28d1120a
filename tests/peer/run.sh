#!/usr/bin/env bash
# run.sh BOOTSTRAP [fast|all|ClassName...]     (default: fast)
# Runs Apache Kafka's own published tests against the server at BOOTSTRAP (HOST:PORT), one class at a time, prints
# a table and compares it with rows.tsv. Exit: 0 = every test that passes on Kafka passes here,
# 1 = some does not, 2 = could not run. ClassName is a whole name or the end of one (EosIntegrationTest).
# Settings by environment: PEER_CACHE (jars, classes; default ~/.cache/riparian-peer), PEER_LIB (the jars, if somebody
# has fetched them already), PEER_OUT (results), PEER_LANE (2/3: of every three classes the second),
# PEER_TEST_TIMEOUT (s, 120), PEER_CLASS_TIMEOUT (s, 0 = three times the baseline, at least 120), PEER_HEAP (1G),
# PEER_BASELINE (file), PEER_RETRY=1 (run a class with a missed test once more; the better result of a test counts).
set -uo pipefail
[ $# -ge 1 ] || { sed -n '2,10s/^# //p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
boot=$1; shift
[ $# -gt 0 ] || set -- fast
cache=${PEER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/riparian-peer}
baseline=${PEER_BASELINE:-$here/rows.tsv}
out=${PEER_OUT:-$cache/out/$(date +%Y%m%d-%H%M%S)}
heap=${PEER_HEAP:-1G} tlimit=${PEER_TEST_TIMEOUT:-120} climit=${PEER_CLASS_TIMEOUT:-0}
mkdir -p "$cache/classes" "$out/logs" || exit 2

first=${boot%%,*}
(exec 3<>"/dev/tcp/${first%:*}/${first##*:}") 2>/dev/null || { echo "nothing answers at $first" >&2; exit 2; }

# 1. jars: by Maven, once for each state of pom.xml
exec 9> "$cache/lock"; flock 9
lib=${PEER_LIB:-$cache/lib}
sum=$(cksum < "$here/pom.xml" | cut -d' ' -f1)
if [ -z "${PEER_LIB:-}" ] && [ ! -e "$cache/resolved-$sum" ]; then
  rm -rf "$lib" "$cache"/resolved-*
  mvn -q -B -f "$here/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory="$lib" >&2 || exit 2
  touch "$cache/resolved-$sum"
fi
# 2. the stand-ins, before Kafka's classes of the same names
if [ ! -e "$cache/compiled" ] || [ -n "$(find "$here/src" -newer "$cache/compiled" -print -quit)" ] || [ "$lib" -nt "$cache/compiled" ]; then
  rm -rf "$cache/classes"; mkdir -p "$cache/classes"
  javac -nowarn -d "$cache/classes" -cp "$lib/*" $(find "$here/src" -name '*.java') >&2 || exit 2
  cp -r "$here/src/META-INF" "$cache/classes/" && touch "$cache/compiled"
fi
exec 9>&-

# 3. what to run: lines "class <tab> methods" (m1|m2|..., or - for all)
plan=$out/plan.tsv
for what in "$@"; do
  case $what in
    fast) awk -F'\t' '/^#/{next} $1=="fast" && !s[$2]++ {o[++n]=$2}
            {split($3,m,/[ (]/); if ($1=="fast") {if (!t[$2,m[1]]++) f[$2]=f[$2] (f[$2]==""?"":"|") m[1]} else part[$2]=1}
            END {for (i=1;i<=n;i++) print o[i] "\t" (part[o[i]] ? f[o[i]] : "-")}' "$baseline" ;;
    all)  awk -F'\t' '!/^#/ && $1!="later" && !s[$2]++ {print $2 "\t-"}' "$baseline" ;;
    *) m=$(awk -F'\t' -v w="$what" '/^#/{next} !s[$2]++ && ($2==w || substr($2, length($2)-length(w))=="."w) {print $2 "\t-"}' "$baseline")
       echo "${m:-$what	-}" ;;
  esac
done | awk -F'\t' -v lane="${PEER_LANE:-1/1}" 'BEGIN {split(lane, l, "/")} !s[$1]++ && n++ % l[2] == l[1] - 1' > "$plan"
n=$(wc -l < "$plan"); [ "$n" -gt 0 ] || { echo "nothing to run" >&2; exit 2; }
results=$out/results.tsv; : > "$results"

one() { # class, methods: runs it, appends its rows to $results
  local c=$1 methods=$2 raw=$out/raw.tsv limit=$climit t0 rc x=()
  if [ "$limit" = 0 ]; then
    limit=$(awk -F'\t' -v c="$c" '$2==c {s+=$5} END {l=int(3*s)+60; print (l<120?120:l)}' "$baseline")
  fi
  case $c in org.apache.kafka.streams.*|org.apache.kafka.tools.streams.*|org.apache.kafka.tools.Reset*) ;; *) x=(--config=junit.jupiter.extensions.autodetection.enabled=true) ;; esac
  [ "$methods" = - ] || x+=("--include-methodname=.*#($methods)")
  local tmp; tmp=$(mktemp -d "$out/tmp.XXXXXX"); : > "$raw"; t0=$(date +%s)
  timeout -k 10 "$limit" java -Xmx"$heap" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dpeer.bootstrap="$boot" -Dpeer.out="$raw" \
    -Dpeer.test.timeout.s="$tlimit" -Djava.io.tmpdir="$tmp" -Dlog4j2.configurationFile="$here/log4j2.properties" \
    -cp "$cache/classes:$lib/*" org.junit.platform.console.ConsoleLauncher execute --disable-banner --disable-ansi-colors \
    --details=none ${x[@]+"${x[@]}"} --select-class="$c" > "$out/logs/$c.log" 2>&1
  rc=$?
  rm -rf "$tmp"
  awk -F'\t' -v OFS='\t' -v c="$c" -v rc=$rc -v limit="$limit" '
    /^#end/ {ended=1} /^#start/ {open=$3; at=1; next} /^#/ {next}
    {print; n++; if ($2==open) at=0}
    END { if (!ended) { w = rc==124||rc==137 ? "class stopped after " limit " s" : "JVM ended (" rc ") before the class did"
            print c, (at ? open : "(class)"), (rc==124||rc==137) ? "SLOW" : "FAIL", "0.0", w }
          else if (!n) print c, "(class)", "FAIL", "0.0", "no test ran (" rc ")" }' "$raw" > "$raw.rows"
  cat "$raw.rows" >> "$results"
  awk -F'\t' -v t=$(( $(date +%s) - t0 )) -v c="$c" '{r[$3]++} END {printf "%-95s %4d s  pass %d fail %d slow %d skip %d\n", c, t, r["PASS"], r["FAIL"], r["SLOW"], r["SKIP"]}' "$raw.rows"
}

i=0
while IFS=$'\t' read -r c methods; do
  i=$((i+1)); printf '[%d/%d] ' $i "$n"
  one "$c" "$methods"
  if [ "${PEER_RETRY:-0}" = 1 ] && awk -F'\t' -v c="$c" -v ms="$methods" 'NR==FNR {split($3,m,/[ (]/); if ($2==c && $4=="PASS" && (ms=="-" || index("|" ms "|", "|" m[1] "|"))) b[$3]=1; next} $1==c && $3=="PASS" {delete b[$2]} END {for (k in b) exit 0; exit 1}' "$baseline" "$results"; then
    printf '        again: '; one "$c" "$methods"
  fi
done < "$plan"

# 4. the table and the verdict
awk -F'\t' -v OFS='\t' -v rank='PASS=4 SKIP=3 SLOW=2 FAIL=1' '
  BEGIN {split(rank, a, " "); for (i in a) {split(a[i], b, "="); r[b[1]]=b[2]}}
  {k=$1 "\t" $2; if (!(k in best)) ord[++n]=k; if (!(k in best) || r[$3]>r[best[k]]) {best[k]=$3; line[k]=$0}}
  END {for (i=1;i<=n;i++) print line[ord[i]]}' "$results" > "$out/table.tsv"
echo; echo "test | result | seconds | reason"
awk -F'\t' '{c=$1; sub(/^.*\./,"",c); printf "%s.%s | %s | %s | %s\n", c, substr($2,1,150), $3, $4, substr($5,1,200)}' "$out/table.tsv"
echo
awk -F'\t' '
  function wanted(c, t,  m) {split(t, m, /[ (]/); return plan[c]=="-" || index("|" plan[c] "|", "|" m[1] "|")}
  FILENAME==ARGV[1] {plan[$1]=$2; next}
  FILENAME==ARGV[2] {if ($0 !~ /^#/ && ($2 in plan) && wanted($2, $3)) b[$2 "\t" $3]=$4; next}
  {k=$1 "\t" $2; now[k]=$3; why[k]=$5; tot[$3]++}
  END {
    for (k in b) if (b[k]=="PASS") {target++; if (now[k]=="PASS") ok++; else {miss++; split(k,p,"\t"); m=m sprintf("  MISSED %s %s: %s %s\n", p[1], p[2], (k in now)?now[k]:"not run", substr(why[k],1,200))}}
    for (k in now) if (now[k]=="PASS" && b[k]!="PASS") gain++
    printf "%s", m
    printf "pass %d, fail %d, slow %d, skip %d; of %d tests that pass on Kafka %d pass here, %d do not; %d pass here beyond the baseline\n", tot["PASS"], tot["FAIL"], tot["SLOW"], tot["SKIP"], target, ok, miss, gain
    exit (miss>0)}' "$plan" "$baseline" "$out/table.tsv"
rc=$?
echo "results: $out/table.tsv, logs: $out/logs"
exit $rc
