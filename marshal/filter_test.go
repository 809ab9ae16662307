package main

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

func TestWhichRecordsTheLogShows(t *testing.T) {
	of := func(kind, topic string, partition int32) []marshal.LogChange {
		return []marshal.LogChange{{Kind: kind, Topic: topic, Partition: partition, Offset: -1}}
	}
	records := map[string]marshal.LogRecord{
		"empty":     {Kind: "heartbeat", Replayed: true},
		"unknown":   {Kind: "heartbeat"}, // what it changed cannot be known
		"progress":  {Kind: "heartbeat", Replayed: true, Effects: []string{"x"}, Changes: of("progress", "t", 3)},
		"wrong":     {Kind: "heartbeat", Replayed: true, Findings: []string{"x"}},
		"claim":     {Kind: "claim", Replayed: true, Effects: []string{"x"}, Changes: append(of("granted", "t", 2), of("granted", "t", 9)...)},
		"whole":     {Kind: "claim", Replayed: true, Effects: []string{"x"}, Changes: of("granted", "t", -1)},
		"elsewhere": {Kind: "claim", Replayed: true, Effects: []string{"x"}, Changes: of("granted", "u", 9)},
		"joined":    {Kind: "join", Replayed: true, Effects: []string{"x"}, Changes: of("joined", "", -1)},
	}
	for want, f := range map[string]logFilter{
		"unknown progress wrong claim whole elsewhere joined":       {partition: -1},
		"empty unknown progress wrong claim whole elsewhere joined": {partition: -1, all: true},
		"wrong claim whole elsewhere joined":                        {partition: -1, noHeartbeats: true},
		"progress claim whole":                                      {topic: "t", partition: -1},
		"claim whole":                                               {topic: "t", partition: 9},
		"progress whole":                                            {topic: "t", partition: 3, all: true},
		"whole":                                                     {topic: "t", partition: 3, noHeartbeats: true},
		"elsewhere":                                                 {topic: "u", partition: -1},
	} {
		for name, r := range records {
			assert.Equal(t, strings.Contains(" "+want+" ", " "+name+" "), f.wants(&r), "%s: %s", want, name)
		}
	}
}

func TestWhatHappenedToAKeyInWords(t *testing.T) {
	for want, c := range map[string]marshal.LogChange{
		"t/3: granted, a (x), epoch 5":                           {Kind: "granted", Topic: "t", Partition: 3, Client: "a", Instance: "x", Epoch: 5, Offset: -1},
		"t/3: handed over, a (x), from y, epoch 5":               {Kind: "handed_over", Topic: "t", Partition: 3, Client: "a", Instance: "x", By: "y", Epoch: 5, Offset: -1},
		"t/0: refused, a (x), held by y":                         {Kind: "refused", Topic: "t", Client: "a", Instance: "x", By: "y", Reason: "held", Offset: -1},
		"t (whole): refused, a limit of the group's size, a (x)": {Kind: "refused", Topic: "t", Partition: -1, Client: "a", Instance: "x", Reason: "a limit of the group's size", Offset: -1},
		"t/0: released, a (x), by y":                             {Kind: "released", Topic: "t", Client: "a", Instance: "x", By: "y", Offset: -1},
		"t/0: sought 0":                                          {Kind: "sought", Topic: "t"},
	} {
		assert.Equal(t, want, change(&c))
	}
}

// TestTheLogOfOnePartition asks what an operator asks: how did a partition of many come to its owner?
func TestTheLogOfOnePartition(t *testing.T) {
	f := &fleet{t, testutil.NewCluster(t, testutil.WithTopic("orders", 12))}
	for p := range int32(12) {
		_, err := f.Fill("orders", p, 20, 10)
		require.NoError(t, err)
	}
	m, _ := f.member("w1")
	f.waits("all is read", func() bool {
		read := 0
		for _, k := range m.State().Keys {
			if k.Next == 20 {
				read++
			}
		}
		return read == 12
	})
	m.Terminate()
	_, out, _ := f.command("log", "-group", "orders")
	require.Contains(t, out, "): orders/0-11\n", "a table names all of a claim")

	code, out, errs := f.command("log", "-group", "orders", "-topic", "orders", "-partition", "11")
	require.Zero(t, code, errs)
	assert.Regexp(t, `(?m)^    orders/11: granted, w1 \([0-9a-f]{8}\), epoch \d+$`, out)
	assert.Regexp(t, `(?m)^    orders/11: progress 20, w1 \([0-9a-f]{8}\), epoch \d+$`, out)
	assert.Regexp(t, `(?m)^    orders/11: released, w1`, out)
	assert.NotRegexp(t, `(?m)^    orders/1: |^    orders/10: | joins `, out)
	_, quiet, _ := f.command("log", "-group", "orders", "-topic", "orders", "-partition", "11", "-no-heartbeats")
	assert.Contains(t, quiet, "orders/11: granted")
	assert.NotContains(t, quiet, "heartbeat")

	_, out, _ = f.command("log", "-group", "orders", "-o", "json")
	granted := map[int32]bool{}
	for line := range strings.Lines(out) {
		var r marshal.LogRecord
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		assert.False(t, r.Kind == "heartbeat" && len(r.Changes) == 0)
		for _, c := range r.Changes {
			granted[c.Partition] = granted[c.Partition] || c.Kind == "granted"
		}
	}
	for p := range int32(12) {
		assert.True(t, granted[p], p)
	}

	_, next, err := f.Offsets(marshal.MarshalTopic, f.shard())
	require.NoError(t, err)
	code, out, errs = f.command("log", "-group", "orders", "-from", "99999999")
	assert.Zero(t, code)
	assert.Empty(t, out)
	assert.Contains(t, errs, "nothing is there from that on: the newest record of group orders is at offset "+strconv.FormatInt(next-1, 10)+", of 2")
	code, out, errs = f.command("log", "-group", "orders", "-topic", "nothing")
	assert.Zero(t, code)
	assert.Empty(t, out)
	assert.Regexp(t, `none of \d+ records is shown: see -topic`, errs)
}

func TestVerifyCountsRecordsFindingsAndWhatSinceLeavesOut(t *testing.T) {
	f := newFleet(t)
	m, _ := f.member("w1")
	f.shared(m, 1)
	m.Terminate()
	shard, foreign := f.shard(), "other"
	require.NotEqual(t, shard, lease.ShardOf(foreign))
	honest := len(f.written(shard))
	_, err := f.Produce(marshal.MarshalTopic, shard, testutil.Message{Key: []byte("orders"), Value: []byte("???")}, testutil.Message{Key: []byte(foreign), Value: []byte("x")})
	require.NoError(t, err)
	code, out, errs := f.command("verify")
	assert.Equal(t, 1, code)
	assert.Contains(t, errs, "something is wrong: 3 findings in 2 records")
	assert.Contains(t, out, "\n1 group, "+strconv.Itoa(honest+2)+" records, "+strconv.Itoa(honest)+" of them replayed: 3 findings in 2 records\n", "what cannot be read is not replayed, and makes no group")
	assert.NotContains(t, out, "not replayed, no snapshot")
	assert.Contains(t, out, `its key is "other", whose records belong to shard `+strconv.Itoa(int(lease.ShardOf(foreign))))

	code, _, errs = f.command("verify", "-group", foreign)
	assert.Equal(t, 3, code)
	assert.Contains(t, errs, "there is no record of group other in its shard "+strconv.Itoa(int(lease.ShardOf(foreign)))+" of __marshal")

	code, _, _ = f.command("verify", "-since", "1h")
	assert.Equal(t, 1, code, "they are younger")
	var r report
	f.waits("time passes", func() bool {
		code, out, errs = f.command("verify", "-since", "1ms", "-o", "json")
		return code == 0
	})
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.EqualValues(t, honest+2, r.Records, "all of it is replayed")
	assert.EqualValues(t, 3, r.Older)
	assert.Zero(t, r.Findings+r.Wrong)
	assert.Empty(t, r.Found)
	_, out, _ = f.command("verify", "-since", "1ms")
	assert.Contains(t, out, ": 0 findings (3 findings not counted: older than -since)\n")
}

// TestTheHelpNamesEachFieldOfTheJSON and every exit code.
func TestTheHelpNamesEachFieldOfTheJSON(t *testing.T) {
	for name, v := range map[string]any{"state": groupView{}, "log": marshal.LogRecord{}, "verify": report{}, "seek": moves{}} {
		var out, errs bytes.Buffer
		require.Zero(t, run(context.Background(), []string{name, "-h"}, &out, &errs))
		fields := map[string]bool{}
		tags(reflect.TypeOf(v), fields)
		if name == "verify" { // it refers to log's
			fields = map[string]bool{}
			for i := range reflect.TypeFor[report]().NumField() {
				fields[reflect.TypeFor[report]().Field(i).Tag.Get("json")] = true
			}
		}
		require.NotEmpty(t, fields)
		for field := range fields {
			assert.Contains(t, out.String(), `"`+field+`"`, name)
		}
		assert.NotContains(t, out.String(), "…", name)
		for _, code := range []string{"Exit code 0: ", " 1: ", " 2: ", " 3: "} {
			assert.Contains(t, strings.ReplaceAll(out.String(), "\n", " "), code, name)
		}
	}
}

// tags lists the names that a type has in JSON, those within it too.
func tags(t reflect.Type, into map[string]bool) {
	switch {
	case t == reflect.TypeFor[time.Time]():
	case t.Kind() == reflect.Slice:
		tags(t.Elem(), into)
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name != "" {
				into[name] = true
			}
			tags(t.Field(i).Type, into)
		}
	}
}
