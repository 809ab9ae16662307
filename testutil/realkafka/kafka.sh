#!/usr/bin/env bash
# A real Apache Kafka on 127.0.0.1 for integration tests: KRaft, broker and controller in one JVM, one or three of them.
# It needs Java 17 and Maven, and fetches its jars (45 MB) by itself; with KAFKA_SECURITY also Go.
#
#   kafka.sh start [1|3]    start 1 (or 3) brokers, wait until all are ready, print their addresses
#   kafka.sh stop           stop them in good order; the data stay
#   kafka.sh clean          kill them and remove the data
#   kafka.sh addrs [KIND]   print host:port,... of the listeners of a kind: plain, tls, mtls, sasl or sasltls
#   kafka.sh status         one line for each broker
#
# One broker, N is 1, 2 or 3:
#   kafka.sh kill N         SIGKILL
#   kafka.sh freeze N       SIGSTOP: its port still accepts, answers never come
#   kafka.sh thaw N         SIGCONT
#   kafka.sh stop N         stop it in good order
#   kafka.sh up N           start it again and wait (9 to 12 s after a kill: its old session must run out)
#   kafka.sh restart N      stop and up in one
#   kafka.sh leader TOPIC PARTITION      print which N leads a partition
#
# What an administrator does (a JVM each, so a second or two):
#   kafka.sh topic-config TOPIC KEY=VALUE,...             change a topic's settings
#   kafka.sh delete-records TOPIC PARTITION OFFSET        cut the start of a log off, below OFFSET
#   kafka.sh reset-offsets GROUP ARG...                   kafka-consumer-groups --reset-offsets, e.g. --topic t --to-earliest
#   kafka.sh user NAME [PASSWORD]         add a SCRAM user or change the password; without one, remove the user. At once
#   kafka.sh plain NAME [PASSWORD]        the same of a PLAIN user: restarts the brokers, one after another
#   kafka.sh tool NAME ARG...             one of Kafka's own: kafka-topics, kafka-configs, kafka-acls, kafka-consumer-groups,
#                                         kafka-delete-records, kafka-get-offsets, kafka-transactions,
#                                         kafka-console-producer (reads stdin), kafka-console-consumer
#
# KAFKA_LAB       the folder of this cluster; default tmp/kafka in the repository
# KAFKA_LIBS      the folder of the jars; default tmp/kafka-libs in the repository
# KAFKA_PORT      the first of 18 ports: three each for plain listeners, controllers, tls, mtls, sasl, sasltls; default 19092.
#                 Two clusters at once need two labs and two ranges, below that of ephemeral ports
# KAFKA_HEAP      of each JVM; default 512m
# KAFKA_JVM       options of each JVM; the default starts twice as fast as Java's own and is slower under load
# KAFKA_PROPS     more lines for server.properties, e.g. $'broker.session.timeout.ms=2000'
# KAFKA_SECURITY  1: listeners with security beside the plain one, and authorization.
#                 tls, mtls (wants a client certificate), sasl and sasltls (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512;
#                 sasltls also OAUTHBEARER, with tokens that nobody has signed).
#                 LAB/tls has ca.pem and the keys and certificates server.pem, client.pem (CN=worker), and ca-key.pem.
#                 Users, by every mechanism: worker (worker-secret), who may do everything, as may who comes without a name;
#                 and limited (limited-secret), who may do what an ACL grants. Sessions of SCRAM-SHA-256 last 3 s,
#                 of PLAIN 30 s.
# MAVEN_REPO      Maven's local repository, where it is not the usual one
set -euo pipefail
set -m # a broker gets a process group of its own, so that Ctrl-C on the caller does not reach it

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
lab=${KAFKA_LAB:-$root/tmp/kafka}
libs=${KAFKA_LIBS:-$root/tmp/kafka-libs}
port=${KAFKA_PORT:-19092}
heap=${KAFKA_HEAP:-512m}
read -ra jvm <<<"${KAFKA_JVM:--XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto}"

die() { echo "kafka.sh: $*" >&2; exit 1; }
size() { cat "$lab/size" 2>/dev/null || echo 0; }
pid() { cat "$lab/$1/pid" 2>/dev/null || true; }

# at KIND N: where a listener of broker N is.
kinds=(plain controller tls mtls sasl sasltls)
at() {
	local k
	for k in "${!kinds[@]}"; do
		[[ ${kinds[k]} != "$1" ]] || { echo "127.0.0.1:$((port + 3 * k + $2 - 1))"; return; }
	done
	die "no listeners of kind $1: one of ${kinds[*]}"
}

addrs() { # [KIND]
	local i list= one
	for ((i = 1; i <= $(size); i++)); do
		one=$(at "${1:-plain}" "$i") || exit 1
		list+=${list:+,}$one
	done
	echo "$list"
}

# A recorded pid counts only while it is a JVM that runs on our file: pids are used again.
alive() {
	local p
	p=$(pid "$1")
	[[ -n $p ]] && ps -o command= -p "$p" 2>/dev/null | grep -qF "$lab/$1/server.properties"
}

fetch() {
	local want
	want=$(cksum <"$here/pom.xml")
	[[ $(cat "$libs/.complete" 2>/dev/null) == "$want" ]] && return
	[[ ! -f $libs/.complete ]] && compgen -G "$libs/kafka_2.13-*.jar" >/dev/null && return # a folder somebody filled
	command -v mvn >/dev/null || die "Maven (mvn) is needed to fetch the jars"
	echo "kafka.sh: fetching Kafka's jars into $libs" >&2
	mkdir -p "$libs"
	mvn -q -B ${MAVEN_REPO:+-Dmaven.repo.local="$MAVEN_REPO"} -f "$here/pom.xml" \
		dependency:copy-dependencies -DoutputDirectory="$libs" >&2 || die "mvn could not fetch the jars"
	echo "$want" >"$libs/.complete"
}

# configure I N: the properties of broker I of N.
configure() {
	local i rf=1 isr=1 voters=
	(($2 == 3)) && rf=3 isr=2
	for ((i = 1; i <= $2; i++)); do voters+=${voters:+,}$i@$(at controller "$i"); done
	mkdir -p "$lab/$1"
	cat >"$lab/$1/server.properties" <<-END
		process.roles=broker,controller
		node.id=$1
		broker.rack=rack$1
		controller.quorum.voters=$voters
		controller.listener.names=CONTROLLER
		inter.broker.listener.name=PLAIN
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
	if [[ ${KAFKA_SECURITY:-} == 1 ]]; then secure "$1"; else listen "$1" plain:PLAINTEXT; fi >>"$lab/$1/server.properties"
	printf '%s\n' "${KAFKA_PROPS:-}" >>"$lab/$1/server.properties"
}

# listen I KIND:PROTOCOL...: the listeners of broker I.
listen() {
	local i=$1 l all=CONTROLLER://$(at controller "$1") told= map=CONTROLLER:PLAINTEXT name
	shift
	for l in "$@"; do
		name=${l%%:*}
		l=$(tr '[:lower:]' '[:upper:]' <<<"$name"):${l#*:}
		all+=,${l%%:*}://$(at "$name" "$i")
		told+=${told:+,}${l%%:*}://$(at "$name" "$i")
		map+=,$l
	done
	printf '%s\n' "listeners=$all" "advertised.listeners=$told" "listener.security.protocol.map=$map"
}

# secure I: the listeners with security of broker I, and who may do what.
secure() {
	local l m users= module=org.apache.kafka.common.security
	listen "$1" plain:PLAINTEXT tls:SSL mtls:SSL sasl:SASL_PLAINTEXT sasltls:SASL_SSL
	cat <<-END
		ssl.keystore.type=PEM
		ssl.keystore.location=$lab/tls/server.pem
		ssl.truststore.type=PEM
		ssl.truststore.location=$lab/tls/ca.pem
		listener.name.mtls.ssl.client.auth=required
		listener.name.mtls.ssl.principal.mapping.rules=RULE:^CN=([^,]*).*\$/\$1/
		sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
		listener.name.sasltls.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
		listener.name.sasltls.oauthbearer.sasl.jaas.config=$module.oauthbearer.OAuthBearerLoginModule required;
		listener.name.sasltls.oauthbearer.connections.max.reauth.ms=3600000
		authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
		super.users=User:ANONYMOUS;User:worker
	END
	while read -r m; do users+=" user_${m%%=*}=\"${m#*=}\""; done <"$lab/plain.users"
	for l in sasl sasltls; do
		echo "listener.name.$l.plain.sasl.jaas.config=$module.plain.PlainLoginModule required$users;"
		for m in 256 512; do echo "listener.name.$l.scram-sha-$m.sasl.jaas.config=$module.scram.ScramLoginModule required;"; done
		echo "listener.name.$l.scram-sha-256.connections.max.reauth.ms=3000"
		echo "listener.name.$l.plain.connections.max.reauth.ms=30000"
	done
}

# It takes the place of the shell that runs it, so that $! is the JVM: for subshells only.
java_() { exec java "${jvm[@]}" -Dlog4j2.configurationFile="$here/log4j2.xml" -cp "$libs/*" "$@"; }

# format: a broker of a KRaft cluster starts on a formatted folder only. One is formatted; the others are as it is but for their names.
format() {
	local i id scram=() n=$1 u m
	[[ ! -f $lab/1/data/meta.properties ]] || return 0
	if [[ ${KAFKA_SECURITY:-} == 1 ]]; then
		for u in worker limited; do
			for m in 256 512; do scram+=(--add-scram "SCRAM-SHA-$m=[name=$u,password=$u-secret]"); done
		done
	fi
	(java_ kafka.tools.StorageTool format -t bWFyc2hhbC1pbnRlZ3JhdA -c "$lab/1/server.properties" "${scram[@]}") \
		>"$lab/format.log" 2>&1 || die "format: $(tail -3 "$lab/format.log")"
	for ((i = 2; i <= n; i++)); do
		cp -r "$lab/1/data" "$lab/$i/data"
		id=$(head -c 16 /dev/urandom | base64 | tr '+/' 'ab' | tr -d '=\n')
		sed "s/^node.id=.*/node.id=$i/; s/^directory.id=.*/directory.id=$id/" "$lab/1/data/meta.properties" >"$lab/$i/data/meta.properties"
	done
}

spawn() {
	alive "$1" && return
	: >"$lab/$1/log" # here: await must not find what the last run has said
	java_ -Xms"$heap" -Xmx"$heap" kafka.Kafka "$lab/$1/server.properties" >>"$lab/$1/log" 2>&1 </dev/null &
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

kill9() {
	alive "$1" || return 0
	kill -KILL "$(pid "$1")"
	gone "$1" 5
}

up() {
	spawn "$1"
	await "$1"
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

there() { # N: a broker that was started before
	[[ ${1:-} =~ ^[1-3]$ && -f $lab/$1/server.properties ]] || die "there never was a broker ${1:-(which?)}"
}

args() { # USAGE WANTED GOT
	(($3 >= $2)) || die "usage: kafka.sh $1"
}

# tool NAME ARG...: runs one of Kafka's own against this cluster.
tool() {
	local class
	case ${1:-} in
	kafka-topics) class=TopicCommand ;;
	kafka-configs) class=ConfigCommand ;;
	kafka-acls) class=AclCommand ;;
	kafka-consumer-groups) class=consumer.group.ConsumerGroupCommand ;;
	kafka-delete-records) class=DeleteRecordsCommand ;;
	kafka-get-offsets) class=GetOffsetShell ;;
	kafka-transactions) class=TransactionsCommand ;;
	kafka-console-producer) class=ConsoleProducer ;;
	kafka-console-consumer) class=consumer.ConsoleConsumer ;;
	*) die "no tool ${1:-(which?)}" ;;
	esac
	shift
	(java_ -Xmx128m "org.apache.kafka.tools.$class" --bootstrap-server "$(addrs)" "$@")
}

# plain NAME [PASSWORD]: in the file that server.properties are made from, and then in the brokers.
plain() {
	local i
	grep -v "^$1=" "$lab/plain.users" >"$lab/plain.new" || true
	[[ -z ${2:-} ]] || echo "$1=$2" >>"$lab/plain.new"
	mv "$lab/plain.new" "$lab/plain.users"
	for ((i = 1; i <= $(size); i++)); do
		configure "$i" "$(size)"
		term "$i"
		up "$i"
	done
}

case ${1:-} in
start)
	n=${2:-1}
	[[ $n == 1 || $n == 3 ]] || die "1 or 3 brokers, not $n"
	[[ $(size) == 0 || $(size) == "$n" ]] || die "$lab has the data of $(size) brokers: clean first"
	fetch
	mkdir -p "$lab"
	if [[ ${KAFKA_SECURITY:-} == 1 && ! -f $lab/plain.users ]]; then
		printf '%s\n' worker=worker-secret limited=limited-secret >"$lab/plain.users"
		go -C "$root" run ./testutil/realkafka/certificates "$lab/tls"
	fi
	for ((i = 1; i <= n; i++)); do alive "$i" || configure "$i" "$n"; done
	echo "$n" >"$lab/size"
	format "$n"
	for ((i = 1; i <= n; i++)); do spawn "$i"; done
	each await
	addrs
	;;
stop)
	if [[ -z ${2:-} ]]; then each term; else
		need "$2"
		term "$2"
	fi
	;;
clean)
	each kill9
	rm -rf "${lab:?}"/[1-3] "$lab/tls" "$lab/plain.users" "$lab/format.log" "$lab/size"
	;;
addrs) addrs "${2:-}" ;;
status)
	for ((i = 1; i <= $(size); i++)); do
		alive "$i" && echo "broker $i at $(at plain "$i"): $(ps -o pid=,stat=,rss=,time= -p "$(pid "$i")")" || echo "broker $i down"
	done
	;;
kill) need "${2:-}"; kill9 "$2" ;;
freeze) need "${2:-}"; kill -STOP "$(pid "$2")" ;;
thaw) need "${2:-}"; kill -CONT "$(pid "$2")" ;;
up) there "${2:-}"; up "$2" ;;
restart) there "${2:-}"; term "$2"; up "$2" ;;
leader)
	args "leader TOPIC PARTITION" 3 $#
	tool kafka-topics --describe --topic "$2" | sed -nE "s/.*Partition: $3[[:space:]].*Leader: ([0-9]+).*/\1/p" | grep . ||
		die "nobody leads $2/$3"
	;;
topic-config)
	args "topic-config TOPIC KEY=VALUE,..." 3 $#
	tool kafka-configs --alter --entity-type topics --entity-name "$2" --add-config "$3"
	;;
delete-records)
	args "delete-records TOPIC PARTITION OFFSET" 4 $#
	wish=$(mktemp "$lab/delete.XXXXXX")
	trap 'rm -f "$wish"' EXIT
	echo "{\"version\":1,\"partitions\":[{\"topic\":\"$2\",\"partition\":$3,\"offset\":$4}]}" >"$wish"
	tool kafka-delete-records --offset-json-file "$wish"
	;;
reset-offsets)
	args "reset-offsets GROUP ARG..." 3 $#
	tool kafka-consumer-groups --reset-offsets --execute --group "${@:2}"
	;;
user)
	args "user NAME [PASSWORD]" 2 $#
	for m in SCRAM-SHA-256 SCRAM-SHA-512; do # one at a time: a request may change a user once
		if [[ -n ${3:-} ]]; then wish=(--add-config "$m=[password=$3]"); else wish=(--delete-config "$m"); fi
		tool kafka-configs --alter --entity-type users --entity-name "$2" "${wish[@]}"
	done
	;;
plain)
	args "plain NAME [PASSWORD]" 2 $#
	[[ -f $lab/plain.users ]] || die "$lab was not started with KAFKA_SECURITY=1"
	KAFKA_SECURITY=1 plain "$2" "${3:-}"
	;;
tool) tool "${@:2}" ;;
*)
	sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
	exit 2
	;;
esac
