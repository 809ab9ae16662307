#!/usr/bin/env bash
# A real Apache Kafka on 127.0.0.1 for integration tests: KRaft, broker and controller in one JVM, one or three of them.
# It needs Java 17 and Maven, and fetches its jars (43 MB) by itself.
#
#   kafka.sh start [1|3]    start 1 (or 3) brokers, wait until all are ready, print their addresses
#   kafka.sh stop           stop them; the data stay
#   kafka.sh clean          stop them and remove the data
#   kafka.sh addrs          print host:port,...
#   kafka.sh status         one line for each broker
#   kafka.sh kill9 N        SIGKILL broker N (1, 2, 3)
#   kafka.sh pause N        SIGSTOP it: its port still accepts, answers never come
#   kafka.sh resume N       SIGCONT it
#   kafka.sh down N         stop broker N in good order
#   kafka.sh up N           start broker N again and wait (9 to 12 s after kill9: its old session must run out)
#
# KAFKA_LAB    the folder of this cluster; default tmp/kafka in the repository
# KAFKA_LIBS   the folder of the jars; default tmp/kafka-libs in the repository
# KAFKA_PORT   brokers listen on it and the next ones, controllers 100 above; default 19092. Two clusters at once need
#              two labs and two ports, below the range of ephemeral ports
# KAFKA_HEAP   of each JVM; default 512m
# KAFKA_PROPS  more lines for server.properties, e.g. $'broker.session.timeout.ms=2000'
# MAVEN_REPO   Maven's local repository, where it is not the usual one
set -euo pipefail
set -m # a broker gets a process group of its own, so that Ctrl-C on the caller does not reach it

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
lab=${KAFKA_LAB:-$root/tmp/kafka}
libs=${KAFKA_LIBS:-$root/tmp/kafka-libs}
port=${KAFKA_PORT:-19092}
heap=${KAFKA_HEAP:-512m}

die() { echo "kafka.sh: $*" >&2; exit 1; }
size() { cat "$lab/size" 2>/dev/null || echo 0; }
addr() { echo "127.0.0.1:$((port + $1 - 1))"; }
pid() { cat "$lab/$1/pid" 2>/dev/null || true; }

addrs() {
	local i list=
	for ((i = 1; i <= $(size); i++)); do list+=${list:+,}$(addr "$i"); done
	echo "$list"
}

# A recorded pid counts only while it is a JVM that runs on our file: pids are used again.
alive() {
	local p
	p=$(pid "$1")
	[[ -n $p ]] && ps -o command= -p "$p" 2>/dev/null | grep -qF "$lab/$1/server.properties"
}

fetch() {
	[[ -f $libs/.complete ]] && return
	compgen -G "$libs/kafka_2.13-*.jar" >/dev/null && return # a folder somebody filled
	command -v mvn >/dev/null || die "Maven (mvn) is needed to fetch the jars"
	echo "kafka.sh: fetching Kafka's jars into $libs" >&2
	mkdir -p "$libs"
	mvn -q -B ${MAVEN_REPO:+-Dmaven.repo.local="$MAVEN_REPO"} -f "$here/pom.xml" \
		dependency:copy-dependencies -DoutputDirectory="$libs" >&2 || die "mvn could not fetch the jars"
	touch "$libs/.complete"
}

# configure I N: the properties of broker I of N.
configure() {
	local i rf=1 isr=1 voters=
	(($2 == 3)) && rf=3 isr=2
	for ((i = 1; i <= $2; i++)); do voters+=${voters:+,}$i@127.0.0.1:$((port + 99 + i)); done
	mkdir -p "$lab/$1"
	cat >"$lab/$1/server.properties" <<-END
		process.roles=broker,controller
		node.id=$1
		broker.rack=rack$1
		controller.quorum.voters=$voters
		listeners=PLAINTEXT://$(addr "$1"),CONTROLLER://127.0.0.1:$((port + 99 + $1))
		advertised.listeners=PLAINTEXT://$(addr "$1")
		controller.listener.names=CONTROLLER
		inter.broker.listener.name=PLAINTEXT
		listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
		log.dirs=$lab/$1/data
		auto.create.topics.enable=false
		default.replication.factor=$rf
		min.insync.replicas=$isr
		offsets.topic.replication.factor=$rf
		offsets.topic.num.partitions=8
		transaction.state.log.replication.factor=$rf
		transaction.state.log.min.isr=$isr
		transaction.state.log.num.partitions=4
		share.coordinator.state.topic.replication.factor=$rf
		share.coordinator.state.topic.min.isr=$isr
		# groups form at once; retention and compaction act within seconds
		group.initial.rebalance.delay.ms=0
		log.retention.check.interval.ms=1000
		log.cleaner.backoff.ms=500
		log.initial.task.delay.ms=1000
		log.segment.delete.delay.ms=1000
		# a small machine
		num.network.threads=2
		num.io.threads=4
		background.threads=2
		log.cleaner.dedupe.buffer.size=16777216
	END
	printf '%s\n' "${KAFKA_PROPS:-}" >>"$lab/$1/server.properties"
}

# It takes the place of the shell that runs it, so that $! is the JVM: for subshells only.
java_() { exec java -XX:+UseSerialGC -Dlog4j2.configurationFile="$here/log4j2.xml" -cp "$libs/*" "$@"; }

# format I: a broker of a KRaft cluster starts on a formatted folder only.
format() {
	[[ -f $lab/$1/data/meta.properties ]] && return
	java_ kafka.tools.StorageTool format -t bWFyc2hhbC1pbnRlZ3JhdA -c "$lab/$1/server.properties" \
		>"$lab/$1/format.log" 2>&1 || die "format: $(tail -3 "$lab/$1/format.log")"
}

spawn() {
	alive "$1" && return
	java_ -Xms"$heap" -Xmx"$heap" kafka.Kafka "$lab/$1/server.properties" >"$lab/$1/log" 2>&1 </dev/null &
	echo $! >"$lab/$1/pid"
	disown
}

# A port that answers is not a ready broker; this line in its log is.
await() {
	local k
	for ((k = 0; k < 1200; k++)); do
		grep -q 'Kafka Server started' "$lab/$1/log" 2>/dev/null && return
		((k < 10)) || alive "$1" || die "broker $1 died: $(tail -5 "$lab/$1/log")"
		sleep 0.05
	done
	die "broker $1 is not ready after 60 s: $(tail -5 "$lab/$1/log")"
}

gone() { # I SECONDS
	local k
	for ((k = 0; k < $2 * 20; k++)); do
		alive "$1" || return 0
		sleep 0.05
	done
	return 1
}

term() {
	local p
	alive "$1" || return 0
	p=$(pid "$1")
	kill -CONT "$p"
	kill -TERM "$p"
	gone "$1" 30 || kill -KILL "$p"
}

each() { # COMMAND: for all brokers at once; fails where one fails
	local i p pids=() failed=0
	for ((i = 1; i <= $(size); i++)); do ("$1" "$i") & pids+=($!); done
	for p in "${pids[@]}"; do wait "$p" || failed=1; done
	return $failed
}

need() { # N: a broker that runs
	[[ ${1:-} =~ ^[1-3]$ ]] && alive "$1" || die "no running broker ${1:-(which?)}"
}

case ${1:-} in
start)
	n=${2:-1}
	[[ $n == 1 || $n == 3 ]] || die "1 or 3 brokers, not $n"
	[[ $(size) == 0 || $(size) == "$n" ]] || die "$lab has the data of $(size) brokers: clean first"
	fetch
	mkdir -p "$lab"
	for ((i = 1; i <= n; i++)); do alive "$i" || configure "$i" "$n"; done
	echo "$n" >"$lab/size"
	each format
	for ((i = 1; i <= n; i++)); do spawn "$i"; done
	each await
	addrs
	;;
stop) each term ;;
clean)
	each term
	rm -rf "${lab:?}"/[1-3] "$lab/size"
	;;
addrs) addrs ;;
status)
	for ((i = 1; i <= $(size); i++)); do
		alive "$i" && echo "broker $i at $(addr "$i"): $(ps -o pid=,stat=,rss=,time= -p "$(pid "$i")")" || echo "broker $i down"
	done
	;;
kill9) need "${2:-}"; kill -KILL "$(pid "$2")"; gone "$2" 5 ;;
pause) need "${2:-}"; kill -STOP "$(pid "$2")" ;;
resume) need "${2:-}"; kill -CONT "$(pid "$2")" ;;
down) need "${2:-}"; term "$2" ;;
up)
	[[ -f $lab/${2:-}/server.properties ]] || die "there never was a broker ${2:-(which?)}"
	spawn "$2"
	await "$2"
	;;
*)
	sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
	exit 2
	;;
esac
