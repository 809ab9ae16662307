package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/testutil"
)

func TestStateShowsMembersHoldersOffsetsAndLag(t *testing.T) {
	f := newFleet(t)
	m1, c1 := f.member("w1")
	_, _ = f.member("w2")
	f.shared(m1, 2)
	require.NoError(t, c1.Flush(within(t)))
	_, err := f.Fill("orders", 0, 5, 10) // read at once
	require.NoError(t, err)
	f.shared(m1, 2)

	var code int
	var out, errs string
	f.waits("both are alive", func() bool { // on a busy machine one is silent now and then
		code, out, errs = f.command("state")
		return strings.Count(out, "  alive\n") == 2
	})
	require.Zero(t, code, errs)
	require.Empty(t, errs)
	assert.Regexp(t, `(?m)^GROUP orders, as of offset \d+ of its log$`, out)
	assert.Regexp(t, `(?m)^MEMBER  INSTANCE  HOST +HOLDS  LAG  IN FLIGHT  LAST HEARD OF +LEASE  STATE$`, out)
	assert.Regexp(t, `(?m)^w1      [0-9a-f]{8}  \S+ +3      0    0          \S+ ago +1.5s   alive$`, out)
	assert.Regexp(t, `(?m)^TOPIC   PARTITION  HOLDER  INSTANCE  EPOCH  NEXT  END  LAG  WHY$`, out)
	assert.Regexp(t, `(?m)^orders  0          w[12]      [0-9a-f]{8}  \d+ +25    25   0$`, out)
	assert.Regexp(t, `(?m)^orders  5          w[12]      [0-9a-f]{8}  \d+ +20    20   0$`, out)
	assert.NotRegexp(t, `(?m) $`, out, "no spaces at an end")

	code, out, _ = f.command("state", "-group", "orders", "-o", "json")
	require.Zero(t, code)
	var groups []struct {
		Group     string
		Offset    int64
		Instances []struct {
			Client string
			TTL    time.Duration `json:"ttl_ns"`
			Silent time.Duration `json:"silent_ns"`
			Status string
		}
		Keys []struct {
			Topic          string
			Partition      int32
			Client         string
			Next, End, Lag int64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &groups), out)
	require.Len(t, groups, 1)
	require.Len(t, groups[0].Instances, 2)
	assert.Equal(t, fleetTTL, groups[0].Instances[0].TTL)
	assert.EqualValues(t, -1, groups[0].Instances[0].Silent)
	require.Len(t, groups[0].Keys, 6)
	assert.EqualValues(t, 25, groups[0].Keys[0].End)

	m1.Terminate()
	f.waits("w2 has all", func() bool {
		_, out, _ := f.command("state")
		return strings.Count(out, " w2 ") == 6 && !strings.Contains(out, "w1")
	})
	code, _, errs = f.command("state", "-group", "oders")
	assert.Equal(t, 3, code)
	assert.Contains(t, errs, "there is no group oders in __marshal")
}

func TestStateOfAGroupThatEverybodyHasLeft(t *testing.T) {
	f := newFleet(t)
	m, _ := f.member("w1")
	f.shared(m, 1)
	m.Terminate()
	_, err := f.Fill("orders", 1, 7, 10)
	require.NoError(t, err)
	_, out, _ := f.command("state")
	assert.Contains(t, out, "no members\n")
	assert.Regexp(t, `(?m)^orders  1          -       -         -      20    27   7    free, no member wants it$`, out)
}

func TestTheTableOfAGroup(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	member := func(client string, heard time.Duration, status string, overdue bool) marshal.InstanceState {
		return marshal.InstanceState{Status: status, Instance: "0a0b0c0d", Client: client, Host: "h", TTL: 10 * time.Second, LastHeartbeat: now.Add(-heard), Parked: status == "parked" || status == "replaced", Overdue: overdue, Claims: 2}
	}
	v := groupView{
		State: marshal.State{Group: "g", Offset: 7, Instances: []marshal.InstanceState{
			member("a", 1500*time.Millisecond, "alive", false), member("bad\x1b[2J", 90*time.Second, "overdue", true), member("c", 0, "parked", false), member("d", time.Hour, "parked", true),
			member("e", 9*time.Second, "silent", false), member("f", 9*time.Second, "replaced", false),
		}},
		Keys: []keyView{
			{KeyState: marshal.KeyState{Topic: "t", Partition: -1, Client: "a", Instance: "0a0b0c0d", Epoch: 5, Parts: []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}}, End: 45, Lag: 0},
			{KeyState: marshal.KeyState{Topic: "topic", Partition: 11, Client: "gone", Next: 3, Why: "free, to be claimed by a"}, End: 5, Lag: 2},
		},
	}
	var out bytes.Buffer
	require.NoError(t, v.print(&out, now))
	assert.Equal(t, `GROUP g, as of offset 7 of its log
MEMBER   INSTANCE  HOST  HOLDS  LAG  IN FLIGHT  LAST HEARD OF  LEASE  STATE
a        0a0b0c0d  h     2      0    0          2s ago         10s    alive
bad�[2J  0a0b0c0d  h     2      0    0          1m30s ago      10s    overdue: it looks dead
c        0a0b0c0d  h     2      -    -          0s ago         10s    parked: its keys are kept for its next run
d        0a0b0c0d  h     2      -    -          1h0m0s ago     10s    parked, overdue
e        0a0b0c0d  h     2      0    0          9s ago         10s    silent
f        0a0b0c0d  h     2      -    -          9s ago         10s    replaced by its next run

TOPIC  PARTITION  HOLDER  INSTANCE  EPOCH  NEXT               END  LAG  WHY
t      all        a       0a0b0c0d  5      1 2 3 4 5 6 7 8 …  45   0
topic  11         -       -         -      3                  5    2    free, to be claimed by a
`, out.String())
	out.Reset()
	require.NoError(t, (&groupView{State: marshal.State{Group: "g", Unreadable: "no snapshot is left"}}).print(&out, now))
	assert.Equal(t, "GROUP g: nothing is known of it yet: no snapshot is left\n", out.String())
}

func TestStateOfAGroupThatCannotBeRead(t *testing.T) {
	f := newFleet(t)
	m, _ := f.member("w1")
	f.shared(m, 1)
	shard := f.shard()
	_, next, err := f.Offsets(marshal.MarshalTopic, shard)
	require.NoError(t, err)
	require.NoError(t, f.DeleteRecords(marshal.MarshalTopic, shard, next-1))
	code, out, errs := f.command("state")
	assert.Zero(t, code, errs)
	assert.Contains(t, out, "GROUP orders: nothing is known of it yet: the start of its history was cut")
	for _, format := range []string{"table", "json"} {
		code, out, errs = f.command("state", "-group", "orders", "-o", format)
		assert.Equal(t, 3, code)
		assert.Contains(t, out, "the start of its history was cut")
		assert.Contains(t, errs, "group orders: the start of its history was cut")
	}
}

func TestLagIsUnknownWhereAnythingIs(t *testing.T) {
	at := func(o int64) kafka.OffsetAnswer { return kafka.OffsetAnswer{Offset: o} }
	for name, c := range map[string]struct {
		next     []int64
		ends     []kafka.OffsetAnswer
		end, lag int64
	}{
		"a partition":                 {[]int64{3}, []kafka.OffsetAnswer{at(10)}, 10, 7},
		"a position beyond the end":   {[]int64{12}, []kafka.OffsetAnswer{at(10)}, 10, 0},
		"no position":                 {[]int64{-1}, []kafka.OffsetAnswer{at(10)}, 10, -1},
		"no end":                      {[]int64{3}, []kafka.OffsetAnswer{{Offset: -1, Err: assert.AnError}}, -1, -1},
		"a whole topic":               {[]int64{3, 4}, []kafka.OffsetAnswer{at(10), at(20)}, 30, 23},
		"one position of it unknown":  {[]int64{-1, 4}, []kafka.OffsetAnswer{at(10), at(20)}, 30, -1},
		"one end of it unknown":       {[]int64{3, 4}, []kafka.OffsetAnswer{{Err: assert.AnError}, at(20)}, -1, -1},
		"a topic that does not exist": {nil, nil, -1, -1},
	} {
		var v keyView
		v.behind(c.next, c.ends)
		assert.Equal(t, [2]int64{c.end, c.lag}, [2]int64{v.End, v.Lag}, name)
	}
}

func TestLogShowsWhatMembersWroteAndWhatCameOfIt(t *testing.T) {
	f := newFleet(t)
	m, _ := f.member("w1")
	f.shared(m, 1)
	m.Terminate()
	code, out, errs := f.command("log", "-group", "orders")
	require.Zero(t, code, errs)
	for _, want := range []string{
		`(?m)^0  \S+Z  w1 \([0-9a-f]{8}\) joins from \S+ with a lease of 1.5s, wants nothing\n    w1 \([0-9a-f]{8}\) is a member$`,
		`(?m)^\d+  \S+Z  w1 \([0-9a-f]{8}\) changes what it wants: orders \(6 partitions\)\n    what it wants is changed$`,
		`(?m)^\d+  \S+Z  w1 \([0-9a-f]{8}\) claims orders/0-5\n    granted to w1 \([0-9a-f]{8}\): orders/0-5$`,
		`(?m)^\d+  \S+Z  heartbeat of w1 \([0-9a-f]{8}\): .*orders/\S+ at 20.*\n    progress: .*orders/\S+ at 20`,
		`(?m)^\d+  \S+Z  w1 \([0-9a-f]{8}\) leaves.*\n(    .*\n)*    w1 \([0-9a-f]{8}\) has ended$`,
	} {
		assert.Regexp(t, want, out)
	}
	assert.NotContains(t, out, "WRONG")

	code, out, _ = f.command("log", "-group", "orders", "-o", "json", "-all")
	require.Zero(t, code)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines {
		var r marshal.LogRecord
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		require.EqualValues(t, i, r.Offset)
		require.Equal(t, "w1", r.Client)
		require.True(t, r.Replayed)
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"-from", "3"}, len(lines) - 3},
		{[]string{"-since", "1h"}, len(lines)},
		{[]string{"-from", "2030-01-02T15:04:05Z"}, 0},
		{[]string{"-from", "2020-01-02T15:04:05Z"}, len(lines)},
	} {
		code, out, errs := f.command(append([]string{"log", "-group", "orders", "-o", "json", "-all"}, c.args...)...)
		assert.Zero(t, code, errs)
		assert.Equal(t, c.want, strings.Count(out, "\n"), c.args)
	}
	code, _, errs = f.command("log", "-group", "oders")
	assert.Equal(t, 3, code)
	assert.Contains(t, errs, "there is no record of group oders in its shard 3 of __marshal")
	code, _, errs = f.command("verify", "-group", "oders")
	assert.Equal(t, 3, code)
	assert.Contains(t, errs, "there is no record of group oders in its shard 3 of __marshal")
}

func TestVerifySaysWhatCannotBeReplayed(t *testing.T) {
	f := newFleet(t)
	m, _ := f.member("w1")
	f.shared(m, 1)
	m.Terminate()
	shard := f.shard()
	_, next, err := f.Offsets(marshal.MarshalTopic, shard)
	require.NoError(t, err)
	require.NoError(t, f.DeleteRecords(marshal.MarshalTopic, shard, next-2))
	code, out, errs := f.command("verify")
	assert.Zero(t, code, errs)
	assert.Equal(t, "1 group, 2 records, 0 of them replayed: 0 findings\nnot replayed, no snapshot of them is left: orders\n", out)
	code, _, errs = f.command("verify", "-group", "orders")
	assert.Equal(t, 3, code)
	assert.Contains(t, errs, "nothing of group orders could be replayed")
	_, out, _ = f.command("log", "-group", "orders")
	assert.Contains(t, out, "(not replayed: ")
}

func TestSeekMovesARunningGroup(t *testing.T) {
	f := newFleet(t)
	m, c := f.member("w1")
	f.shared(m, 1)
	code, out, errs := f.command("seek", "-group", "orders", "-topic", "orders", "-earliest", "-n")
	require.Zero(t, code, errs)
	require.Equal(t, 6, strings.Count(out, "  20    0   not set: dry run\n"), out)
	require.Contains(t, out, "TOPIC   PARTITION  FROM  TO\n")
	f.command("seek", "-group", "oders", "-topic", "orders", "-earliest")
	require.NotContains(t, clients(t, f), "marshal-seek", "neither a dry run nor one that is refused writes")

	messages := c.read.Load()
	code, out, errs = f.command("seek", "-group", "orders", "-topic", "orders", "-partition", "2", "-offset", "15", "-o", "json")
	require.Zero(t, code, errs)
	require.JSONEq(t, `{"group": "orders", "topic": "orders", "dry_run": false, "partitions": [{"partition": 2, "from": 20, "to": 15}]}`, out)
	f.waits("five messages again", func() bool { return c.read.Load() == messages+5 })
	f.shared(m, 1)
	code, out, errs = f.command("seek", "-group", "orders", "-topic", "orders", "-back", "1h") // all that is there is younger
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^orders  5          20    0$`, out)
	f.waits("all messages again", func() bool { return c.read.Load() == messages+5+120 })
	f.shared(m, 1)
	code, out, errs = f.command("verify")
	assert.Zero(t, code, out+errs)
}

func TestSeekMovesAGroupThatIsNotRunning(t *testing.T) {
	f := newFleet(t)
	m, _ := f.member("w1")
	f.shared(m, 1)
	m.Terminate()
	code, out, errs := f.command("seek", "-group", "orders", "-topic", "orders", "-time", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	require.Zero(t, code, errs)
	require.Regexp(t, `(?m)^orders  0          20    20$`, out, "the end, where nothing is so young")
	code, _, errs = f.command("seek", "-group", "orders", "-topic", "orders", "-earliest", "-partition", "4")
	require.Zero(t, code, errs)
	at, _, err := f.Committed("orders", "orders", 4)
	require.NoError(t, err)
	assert.Zero(t, at, "Kafka's own offset follows")
	m, c := f.member("w1")
	f.shared(m, 1)
	assert.EqualValues(t, 20, c.read.Load(), "those of one partition")
}

func TestSeekRefusesWhatMakesNoSense(t *testing.T) {
	f := newFleet(t)
	m, _ := f.member("w1")
	f.shared(m, 1)
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"-group orders -topic orders -partition 9 -earliest", "orders has 6 partitions, there is no 9; nothing was set", 1},
		{"-group orders -topic orders -partition 1 -offset 21", "orders/1 has offsets 0 to 20, not 21; nothing was set", 1},
		{"-group orders -topic nothing -earliest", "there is no topic nothing, or it may not be seen", 1},
		{"-group oders -topic orders -earliest", "group oders has no position of topic orders in __marshal", 1},
	} {
		code, out, errs := f.command(append([]string{"seek"}, strings.Fields(c.args)...)...)
		assert.Equal(t, c.code, code, c.args)
		assert.Empty(t, out, c.args)
		assert.Contains(t, errs, c.says, c.args)
	}
	code, _, errs := f.command("seek", "-group", "new", "-topic", "orders", "-latest", "-force")
	assert.Zero(t, code, errs)
}

func TestCallsThatMakeNoSense(t *testing.T) {
	t.Setenv("MARSHAL_BROKERS", "")
	for _, c := range []struct{ args, says string }{
		{"", "usage: marshal <command>"},
		{"nonsense", `there is no command "nonsense"`},
		{"state", "no brokers: use -brokers, MARSHAL_BROKERS, or bootstrap.servers"},
		{"state -brokers ,", "no brokers"},
		{"state -brokers a:1 -o xml", "-o xml: use table or json"},
		{"state -brokers a:1 more", `what is "more"? There are only flags`},
		{"state -brokers a:1 -timeout 0s", "-timeout 0s: it must be above 0"},
		{"state -brokers foo", "broker foo: use host:port, as in foo:9092"},
		{"seek -brokers a:1,b: -group g -topic t -earliest", "broker b:: use host:port, as in b:9092"},
		{"demo -brokers foo", "broker foo: use host:port, as in foo:9092"},
		{"verify -brokers :9092", "broker :9092: use host:port"},
		{"verify -brokers a:1 -since -1s", "-since -1s: it must be above 0"},
		{"log -brokers a:1 -group g -partition 3", "-partition needs -topic"},
		{"log -brokers a:1 -group g -topic t -partition -3", "-partition -3: there is none"},
		{"log -brokers a:1 -group g -all -no-heartbeats", "-all and -no-heartbeats: use one of them"},
		{"state -nonsense", "flag provided but not defined: -nonsense"},
		{"state -config /does/not/exist", "-config: open /does/not/exist"},
		{"log -brokers a:1", "no group: use -group"},
		{"log -brokers a:1 -group g -from yesterday", "-from yesterday: use an offset, or a time"},
		{"log -brokers a:1 -group g -from 1 -since 1h", "-from and -since: use one of them"},
		{"log -brokers a:1 -group g -since -1h", "-since -1h0m0s: it must be above 0"},
		{"seek -brokers a:1 -group g -earliest", "use -group and -topic"},
		{"seek -brokers a:1 -group g -topic t", "use one of -offset, -time, -back, -earliest and -latest, not 0 of them"},
		{"seek -brokers a:1 -group g -topic t -earliest -latest", "not 2 of them"},
		{"seek -brokers a:1 -group g -topic t -offset 3", "-offset needs -partition"},
		{"seek -brokers a:1 -group g -topic t -partition 1 -offset -3", "-offset needs -partition, and is 0 or above"},
		{"seek -brokers a:1 -group g -topic t -partition -3 -latest", "-partition -3: there is none"},
		{"seek -brokers a:1 -group g -topic t -time noon", "-time noon: use a time"},
		{"seek -brokers a:1 -group g -topic t -back -1h", "-back -1h0m0s: it must be above 0"},
		{"version 1", `what is "1"?`},
		{"demo -brokers", "flag needs an argument: -brokers"},
	} {
		var out, errs bytes.Buffer
		assert.Equal(t, 2, run(context.Background(), strings.Fields(c.args), &out, &errs), c.args)
		assert.Contains(t, errs.String(), c.says, c.args)
		assert.Empty(t, out.String(), c.args)
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	for name := range commands {
		var out, errs bytes.Buffer
		assert.Zero(t, run(context.Background(), []string{name, "-h"}, &out, &errs), name)
		assert.Empty(t, errs.String(), name)
		assert.Regexp(t, `^usage: marshal `+name+` \[flags\]\n\n[A-Z]`, out.String())
		assert.Contains(t, usage, "\n  "+name+" ", "the list has it")
		assert.LessOrEqual(t, longest(out.String()), 160, name)
	}
	var out, errs bytes.Buffer
	assert.Zero(t, run(context.Background(), []string{"help"}, &out, &errs))
	assert.Equal(t, usage, out.String())
	out.Reset()
	assert.Zero(t, run(context.Background(), []string{"version"}, &out, &errs))
	assert.Regexp(t, `^marshal \S+ go1\.`, out.String())
}

func longest(text string) (n int) {
	for line := range strings.Lines(text) {
		n = max(n, len(line))
	}
	return n
}

// TestTheExamplesOfTheHelpMakeSense runs the flags of every example as far as the brokers.
func TestTheExamplesOfTheHelpMakeSense(t *testing.T) {
	n := 0
	for _, about := range []string{aboutState, aboutLog, aboutVerify, aboutSeek} {
		for _, m := range regexp.MustCompile(`(?m)^  marshal (.+?)  `).FindAllStringSubmatch(about, -1) {
			var out, errs bytes.Buffer
			code := run(context.Background(), append(strings.Fields(m[1]), "-brokers", closedPort(t), "-timeout", "100ms"), &out, &errs)
			assert.Equal(t, 3, code, "%s: %s", m[1], errs.String())
			n++
		}
	}
	assert.Equal(t, 8, n)
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestBrokersThatCannotBeReached(t *testing.T) {
	for _, args := range []string{"state", "log -group g", "verify", "seek -group g -topic t -earliest"} {
		var out, errs bytes.Buffer
		begun := time.Now()
		code := run(context.Background(), append(strings.Fields(args), "-brokers", closedPort(t), "-timeout", "300ms"), &out, &errs)
		assert.Equal(t, 3, code, args)
		assert.Less(t, time.Since(begun), patience, args)
		assert.Contains(t, errs.String(), "127.0.0.1", args)
		assert.Empty(t, out.String(), args)
	}
}

func TestACoordinationTopicThatIsNotThereIsNotMade(t *testing.T) {
	f := &fleet{t, testutil.NewCluster(t, testutil.WithTopic("t", 1))}
	for _, args := range []string{"state", "log -group g", "verify", "seek -group g -topic t -earliest"} {
		code, _, errs := f.command(append(strings.Fields(args), "-timeout", "5s")...)
		assert.Equal(t, 3, code, args)
		assert.NotEmpty(t, errs, args)
	}
	_, _, err := f.Offsets(marshal.MarshalTopic, 0)
	assert.Error(t, err, "there is none")
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// clients is the text of all records of the group's shard: names are readable in it.
func clients(t *testing.T, f *fleet) (all string) {
	t.Helper()
	for _, m := range f.written(f.shard()) {
		all += string(m.Value)
	}
	return all
}
