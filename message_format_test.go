package marshal

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func randomRecord(r *rand.Rand) *lease.Record {
	id := func() (id [16]byte) {
		for i := range id {
			id[i] = byte(r.Uint32())
		}
		return id
	}
	maybeID := func() [16]byte {
		if r.IntN(3) == 0 {
			return [16]byte{}
		}
		return id()
	}
	number := func() int64 { return r.Int64() >> r.IntN(64) }
	small := func() int32 { return r.Int32() >> r.IntN(32) }
	flag := func() bool { return r.IntN(2) == 0 }
	topic := func() string { return strings.Repeat("töpic", 1+r.IntN(40)) }
	key := func() lease.Key { return lease.Key{Topic: topic(), Partition: small() - 1} }
	released := func() (keys []lease.ReleasedKey) {
		for range r.IntN(4) {
			k := lease.ReleasedKey{Key: key(), Epoch: number(), TopicID: maybeID()}
			for range r.IntN(4) {
				k.Partitions, k.Next = append(k.Partitions, small()), append(k.Next, number())
			}
			keys = append(keys, k)
		}
		return keys
	}
	kind := lease.KindJoin + lease.Kind(r.IntN(int(lease.KindProbe)))
	rec := &lease.Record{Kind: kind, Version: 2}
	if hasAuthor(kind) {
		rec.Instance, rec.Seq = id(), 1+uint64(number())
	}
	switch kind {
	case lease.KindJoin:
		j := &rec.Join
		*j = lease.Join{Client: strings.Repeat("c", r.IntN(300)), Host: "höst", TTL: time.Duration(number()), TopicID: maybeID(),
			MaxVersion: uint8(r.Uint32()), TokenBase: number() >> 1}
		for range r.IntN(3) {
			in := lease.Interest{Whole: flag(), Max: small(), Weight: small(), Greedy: flag()}
			for range r.IntN(3) {
				in.Topics = append(in.Topics, lease.TopicInterest{Topic: topic(), Partitions: small()})
			}
			j.Interests = append(j.Interests, in)
		}
		for range r.IntN(3) {
			j.Pinned = append(j.Pinned, key())
		}
	case lease.KindHeartbeat:
		rec.Heartbeat = lease.Heartbeat{Load: lease.Load{InFlight: number(), Lag: -number()}, P: number() - 1, Hash: r.Uint64(), Announces: flag()}
		for range r.IntN(3) {
			p := lease.TopicProgress{Topic: topic(), TopicID: maybeID()}
			for range r.IntN(100) {
				p.Partitions, p.Epochs, p.Next = append(p.Partitions, small()), append(p.Epochs, number()), append(p.Next, number())
			}
			rec.Heartbeat.Topics = append(rec.Heartbeat.Topics, p)
		}
	case lease.KindClaim:
		rec.Claim.Atomic = flag()
		for range r.IntN(5) {
			rec.Claim.Keys = append(rec.Claim.Keys, key())
		}
	case lease.KindRelease:
		rec.Release = lease.Release{Keys: released(), Successor: maybeID(), Unfit: flag()}
	case lease.KindLeave:
		rec.Release.Keys = released()
		rec.Leave = lease.Leave{Keep: flag(), Grace: time.Duration(number())}
	case lease.KindEvict:
		rec.Evict.Takeover = flag()
		for range r.IntN(4) {
			rec.Evict.Targets = append(rec.Evict.Targets, lease.Target{Instance: id(), Renewed: number()})
		}
	case lease.KindDirective:
		rec.Directive = lease.Directive{Kind: lease.DirectiveKind(r.IntN(5)), Key: key(), TopicID: maybeID(), Next: number(), Epoch: number() - 1}
	case lease.KindSnapshot:
		count := 1 + uint32(small())
		rec.Snapshot = lease.Snapshot{Upto: number(), Author: id(), TopicID: maybeID(), Index: r.Uint32N(count), Count: count}
		if n := r.IntN(400); n > 0 {
			rec.Snapshot.Chunk = bytes.Repeat([]byte{7}, n)
		}
	case lease.KindBase:
		rec.Base = lease.Base{Seen: number() - 1, TokenBase: number() >> 1}
	case lease.KindProbe:
		rec.Probe = lease.Probe{Nonce: r.Uint64(), WantsBase: flag()}
	}
	return rec
}

func decode(value []byte) *lease.Record {
	rec := new(lease.Record)
	new(decoder).decode(value, rec)
	return rec
}

// A decoder and a Record serve a whole shard, one record after the other, so nothing of one may be left in the next.
func TestDecodeReusesARecord(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	var d decoder
	var reused lease.Record
	for range 20_000 {
		rec := randomRecord(r)
		value := appendRecord(nil, rec)
		d.decode(value, &reused)
		require.Equal(t, rec.Kind, reused.Kind)
		require.Equal(t, value, appendRecord(nil, &reused))
		if r.IntN(3) == 0 { // one that breaks off in the middle
			d.decode(value[:r.IntN(len(value))], &reused)
		}
	}
}

func TestDecodedRecordsDoNotPointIntoTheValue(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		rec := randomRecord(r)
		value := appendRecord(nil, rec)
		got := decode(value)
		for i := range value {
			value[i] = 0xee
		}
		require.Equal(t, rec, got)
	}
}

func TestDecodeLeavesOffsetAndTimestamp(t *testing.T) {
	rec := &lease.Record{Offset: 7, Timestamp: 8}
	new(decoder).decode(appendRecord(nil, &lease.Record{Kind: lease.KindProbe}), rec)
	assert.Equal(t, &lease.Record{Offset: 7, Timestamp: 8, Kind: lease.KindProbe, Version: 2}, rec)
}

// "A Join with seq 1, a Base and a Probe are written in version 2 for ever" (and nothing is written in a lower one).
func TestAJoinWithSeq1ABaseAndAProbeAreWrittenInVersion2(t *testing.T) {
	for _, c := range []struct {
		kind      lease.Kind
		seq       uint64
		have, out uint8
	}{
		{lease.KindJoin, 1, 3, 2},
		{lease.KindJoin, 2, 3, 3},
		{lease.KindBase, 0, 3, 2},
		{lease.KindProbe, 0, 9, 2},
		{lease.KindHeartbeat, 1, 3, 3},
		{lease.KindSnapshot, 0, 3, 3},
		{lease.KindHeartbeat, 1, 0, 2},
	} {
		v := appendRecord(nil, &lease.Record{Kind: c.kind, Seq: c.seq, Version: c.have})
		assert.Equal(t, []byte{0, c.out}, v[:2], "kind %d seq %d in version %d", c.kind, c.seq, c.have)
	}
}

var author = lease.InstanceID{1, 2, 3}

// "`instance`, `seq` and the version are readable in every version."
func TestARecordOfANewerVersionIsKnownByAuthorSeqAndVersion(t *testing.T) {
	rec := &lease.Record{Kind: lease.KindHeartbeat, Version: 3, Instance: author, Seq: 77, Heartbeat: lease.Heartbeat{P: -1}}
	want := &lease.Record{Kind: lease.KindNewer, Version: 3, Instance: author, Seq: 77}
	assert.Equal(t, want, decode(appendRecord(nil, rec)))

	unknown := protowire.AppendTag(appendRecord(nil, rec), 900, protowire.Fixed32Type)
	unknown = protowire.AppendFixed32(unknown, 1)
	assert.Equal(t, want, decode(unknown), "with content that nobody knows today")

	whatever := protowire.AppendBytes(protowire.AppendTag(appendRecord(nil, rec), 3, protowire.BytesType), []byte("not what a Join is today"))
	assert.Equal(t, want, decode(whatever), "with content that reads otherwise today")

	rec.Instance = lease.InstanceID{}
	assert.Equal(t, lease.Foreign, decode(appendRecord(nil, rec)).Kind, "nobody's")
	assert.Equal(t, lease.Foreign, decode(unknown[:len(unknown)-1]).Kind, "an envelope that breaks off")
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	d := schema(t)
	r := rand.New(rand.NewPCG(4, 4))
	for range 3000 {
		rec := randomRecord(r)
		m := asMessage(rec).proto(d)
		// After every known field and message comes one of each wire type with a number that is not used.
		unknown := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), r.Uint64())
		unknown = protowire.AppendBytes(protowire.AppendTag(unknown, 1001, protowire.BytesType), []byte("later"))
		unknown = protowire.AppendFixed64(protowire.AppendTag(unknown, 1002, protowire.Fixed64Type), 1)
		unknown = protowire.AppendFixed32(protowire.AppendTag(unknown, 1003, protowire.Fixed32Type), 1)
		unknown = protowire.AppendTag(protowire.AppendTag(unknown, 1004, protowire.StartGroupType), 1004, protowire.EndGroupType)
		require.Equal(t, rec, decode(append([]byte{0, 2}, withUnknown(m, unknown)...)))
	}
}

func TestWhatCannotBeReadIsForeign(t *testing.T) {
	tag := func(n protowire.Number, w protowire.Type) []byte { return protowire.AppendTag(nil, n, w) }
	num := func(n protowire.Number, v int64) []byte {
		return protowire.AppendVarint(tag(n, protowire.VarintType), uint64(v))
	}
	str := func(n protowire.Number, parts ...[]byte) []byte {
		return protowire.AppendBytes(tag(n, protowire.BytesType), bytes.Join(parts, nil))
	}
	packed := func(n protowire.Number, vs ...int64) []byte {
		var b []byte
		for _, v := range vs {
			b = protowire.AppendVarint(b, uint64(v))
		}
		return str(n, b)
	}
	id, topic := str(1, author[:]), str(1, []byte("t"))
	value := func(parts ...[]byte) []byte { return append([]byte{0, 2}, bytes.Join(parts, nil)...) }
	by := func(parts ...[]byte) []byte { return value(append([][]byte{id, num(2, 1)}, parts...)...) }
	join := func(parts ...[]byte) []byte { return by(str(3, parts...)) }
	heartbeat := func(parts ...[]byte) []byte { return by(str(4, parts...)) }
	progress := func(parts ...[]byte) []byte { return heartbeat(str(1, parts...)) }
	claim := func(parts ...[]byte) []byte { return by(str(5, str(1, parts...))) }
	release := func(parts ...[]byte) []byte { return by(str(6, parts...)) }
	released := func(parts ...[]byte) []byte { return release(str(1, parts...)) }
	evict := func(parts ...[]byte) []byte { return by(str(8, str(1, parts...))) }
	seek := func(parts ...[]byte) []byte { return by(str(9, append(parts, num(1, 1))...)) }
	snapshot := func(parts ...[]byte) []byte { return value(str(10, parts...)) }
	huge := int64(math.MaxInt32) + 1

	good := map[string][]byte{
		"join":      join(num(3, 1)),
		"heartbeat": heartbeat(num(4, 0)),
		"progress":  progress(topic, packed(3, 1, 2), packed(4, 1, 2), packed(5, 1, 2)),
		"claim":     claim(topic, num(2, 1)),
		"release":   released(topic, packed(5, 1), packed(6, 9)),
		"evict":     evict(id, num(2, 5)),
		"seek":      seek(str(2, []byte("t")), num(5, 1)),
		"snapshot":  snapshot(str(2, author[:]), num(5, 1)),
		"base":      value(str(11, num(1, 1), num(2, lease.MaxTokenBase-1))),
		"probe":     value(str(12)),
	}
	for name, v := range good {
		assert.NotEqual(t, lease.Foreign, decode(v).Kind, "%s is what the bad ones are made from", name)
		for n := range v {
			rec := decode(v[:n])
			assert.Equal(t, lease.Foreign, rec.Kind, "%s cut to %d bytes", name, n)
			assert.Equal(t, &lease.Record{Kind: lease.Foreign}, &lease.Record{Kind: rec.Kind, Instance: rec.Instance, Seq: rec.Seq, Version: rec.Version})
		}
	}
	for name, v := range map[string][]byte{
		"nil":                              nil,
		"a zero":                           {0},
		"text of the original":             []byte("Heartbeat/1/1448572397/instance/client/group/topic/3/12345"),
		"version 0":                        append([]byte{0, 0}, good["join"][2:]...),
		"version 1":                        append([]byte{0, 1}, good["join"][2:]...),
		"another mark":                     append([]byte{1, 2}, good["join"][2:]...),
		"header only":                      {0, 2},
		"no content":                       by(),
		"unknown content":                  by(str(13, []byte("x"))),
		"content of another wire type":     by(num(4, 1)),
		"two contents":                     by(str(4), str(5)),
		"the same content twice":           by(str(4), str(4)),
		"no instance":                      value(num(2, 1), str(4)),
		"short instance":                   value(str(1, author[:15]), num(2, 1), str(4)),
		"long instance":                    value(str(1, author[:], []byte{0}), num(2, 1), str(4)),
		"no seq":                           value(id, str(4)),
		"field number 0":                   by(str(4), []byte{0, 1}),
		"end of no group":                  by(str(4), tag(99, protowire.EndGroupType)),
		"varint of eleven bytes":           by(str(4), tag(99, protowire.VarintType), bytes.Repeat([]byte{0x80}, 10), []byte{1}),
		"negative ttl":                     join(num(3, -1)),
		"short topic id in a join":         join(str(4, []byte("short"))),
		"max version 256":                  join(num(5, 256)),
		"negative token base":              join(num(6, -1)),
		"token base 2^62":                  join(num(6, lease.MaxTokenBase)),
		"client is not UTF-8":              join(str(1, []byte{0xff})),
		"negative maximum":                 join(str(7, num(3, -1))),
		"absurd weight":                    join(str(7, num(4, huge))),
		"interest in a topic without name": join(str(7, str(1, num(2, 3)))),
		"negative partition count":         join(str(7, str(1, topic, num(2, -1)))),
		"pinned key without topic":         join(str(8, num(2, 2))),
		"negative p":                       heartbeat(num(4, -1)),
		"fewer epochs than partitions":     progress(topic, packed(3, 1, 2), packed(4, 1), packed(5, 1, 2)),
		"more offsets than partitions":     progress(topic, packed(3, 1, 2), packed(4, 1, 2), packed(5, 1, 2, 3)),
		"progress without topic":           progress(packed(3, 1), packed(4, 1), packed(5, 1)),
		"progress of partition -1":         progress(topic, packed(3, -1), packed(4, 1), packed(5, 1)),
		"progress of partition 2^31":       progress(topic, packed(3, huge), packed(4, 1), packed(5, 1)),
		"negative epoch":                   progress(topic, packed(3, 1), packed(4, -1), packed(5, 1)),
		"negative offset":                  progress(topic, packed(3, 1), packed(4, 1), packed(5, -1)),
		"array that is not packed":         progress(topic, num(3, 1), num(4, 1), num(5, 1)),
		"array that breaks off":            progress(topic, str(3, []byte{0x80})),
		"topic id of 17 bytes":             progress(topic, str(2, make([]byte, 17))),
		"topic of 250 bytes":               claim(str(1, bytes.Repeat([]byte("t"), 250))),
		"topic is not UTF-8":               claim(str(1, []byte{'t', 0xff})),
		"key without topic":                claim(num(2, 1)),
		"partition -2":                     claim(topic, num(2, int64(protowire.EncodeZigZag(-2)))),
		"partition 2^31":                   claim(topic, num(2, int64(protowire.EncodeZigZag(huge)))),
		"short successor":                  release(str(2, []byte{1})),
		"released without topic":           released(num(3, 1)),
		"released with negative epoch":     released(topic, num(3, -1)),
		"released arrays differ":           released(topic, packed(5, 1, 2), packed(6, 1)),
		"released array is not packed":     released(topic, num(5, 1), num(6, 1)),
		"negative grace":                   by(str(7, num(3, -1))),
		"target without instance":          evict(num(2, 5)),
		"target renewed before the log":    evict(id, num(2, -1)),
		"seek without topic":               seek(num(5, 1)),
		"seek before the log":              seek(str(2, []byte("t")), num(5, -1)),
		"seek with epoch -2":               seek(str(2, []byte("t")), num(6, -2)),
		"snapshot without author":          snapshot(num(5, 1)),
		"snapshot without chunks":          snapshot(str(2, author[:])),
		"snapshot chunk 3 of 3":            snapshot(str(2, author[:]), num(4, 3), num(5, 3)),
		"snapshot upto -1":                 snapshot(str(2, author[:]), num(5, 1), num(1, -1)),
		"base that saw -2":                 value(str(11, num(1, int64(protowire.EncodeZigZag(-2))))),
		"base with token base 2^62":        value(str(11, num(2, lease.MaxTokenBase))),
	} {
		assert.Equal(t, lease.Foreign, decode(v).Kind, name)
	}
}

// A record of another directive than Seek "is valid, renews its author and does nothing more".
func TestUnknownDirectivesAreReadable(t *testing.T) {
	for _, kind := range []uint64{2, 5, 255, 256, 1 << 40} {
		v := append([]byte{0, 2}, appendID(nil, tagInstance, author)...)
		v = appendUint(v, tagSeq, 5)
		v, at := openMessage(v, contentTag(lease.KindDirective))
		v = closeMessage(appendUint(v, tagDirectiveKind, kind), at)
		rec := decode(v)
		assert.Equal(t, lease.KindDirective, rec.Kind)
		assert.NotEqual(t, lease.Seek, rec.Directive.Kind)
		assert.Equal(t, uint64(5), rec.Seq)
	}
}

func TestLengthsOfEverySizeAreClosed(t *testing.T) {
	for _, n := range []int{0, 1, 126, 127, 128, 129, 16383, 16384, 1 << 21, 1<<21 + 1} {
		chunk := bytes.Repeat([]byte{1, 2, 3}, n/3+1)[:n]
		rec := &lease.Record{Kind: lease.KindSnapshot, Snapshot: lease.Snapshot{Author: author, Count: 1, Chunk: chunk}}
		require.True(t, bytes.Equal(chunk, decode(appendRecord(nil, rec)).Snapshot.Chunk), "%d", n)
	}
}

// Writers split a record by its SizeBound, before it is encoded.
func TestNoRecordIsLargerThanItsBound(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 20_000 {
		rec := randomRecord(r)
		require.LessOrEqual(t, len(appendRecord(nil, rec)), rec.SizeBound(), "%+v", rec)
	}
	most := &lease.Record{Kind: lease.KindHeartbeat, Instance: author, Seq: math.MaxUint64, Heartbeat: lease.Heartbeat{
		Load: lease.Load{InFlight: -1, Lag: -1}, P: math.MaxInt64, Hash: math.MaxUint64, Announces: true,
		Topics: []lease.TopicProgress{{Topic: "t", TopicID: lease.TopicID(author), Partitions: slices.Repeat([]int32{-1}, 100_000),
			Epochs: slices.Repeat([]int64{-1}, 100_000), Next: slices.Repeat([]int64{-1}, 100_000)}},
	}}
	require.LessOrEqual(t, len(appendRecord(nil, most)), most.SizeBound())
}

func TestTheNamesOfTopicsAreBounded(t *testing.T) {
	var d decoder
	var rec lease.Record
	for i := range 3 * maxInterned {
		topic := fmt.Sprintf("topic-%d", i)
		d.decode(appendRecord(nil, &lease.Record{Kind: lease.KindClaim, Instance: author, Seq: 1,
			Claim: lease.Claim{Keys: []lease.Key{{Topic: topic}}}}), &rec)
		require.Equal(t, []lease.Key{{Topic: topic}}, rec.Claim.Keys)
		require.LessOrEqual(t, len(d.topics), maxInterned)
	}
}

// Sizes that a record claims and does not have must cost nothing.
func TestClaimedSizesAreNotAllocated(t *testing.T) {
	claims := [][]byte{}
	for field := protowire.Number(1); field < 13; field++ {
		b := append([]byte{0, 2}, protowire.AppendTag(nil, field, protowire.BytesType)...)
		for _, size := range []uint64{1 << 20, 1 << 31, 1 << 33, math.MaxUint64} {
			claims = append(claims, append(protowire.AppendVarint(slices.Clone(b), size), 1, 2, 3))
		}
	}
	var d decoder
	var rec lease.Record
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, c := range claims {
		d.decode(c, &rec)
		require.Equal(t, lease.Foreign, rec.Kind)
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<16))
}

// footprint is what the slices of a record take, used or not.
func footprint(r *lease.Record) (n int) {
	n += size(r.Join.Interests) + size(r.Join.Pinned) + size(r.Heartbeat.Topics) + size(r.Claim.Keys) +
		size(r.Release.Keys) + size(r.Evict.Targets) + size(r.Snapshot.Chunk)
	for _, in := range r.Join.Interests {
		n += size(in.Topics)
	}
	for _, p := range r.Heartbeat.Topics {
		n += size(p.Partitions) + size(p.Epochs) + size(p.Next)
	}
	for _, k := range r.Release.Keys {
		n += size(k.Partitions) + size(k.Next)
	}
	return n
}

func size[T any](s []T) int { return cap(s) * int(unsafe.Sizeof(*new(T))) }

func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 100 {
		f.Add(appendRecord(nil, randomRecord(r)))
	}
	f.Add([]byte("Heartbeat/1/1448572397/instance/client/group/topic/3/12345"))
	f.Fuzz(func(t *testing.T, value []byte) {
		rec := decode(value)
		require.LessOrEqual(t, footprint(rec), 1024+100*len(value))
		if rec.Kind == lease.Foreign || rec.Kind == lease.KindNewer {
			return
		}
		again := appendRecord(nil, rec)
		back := decode(again)
		require.Equal(t, rec.Kind, back.Kind)
		require.Equal(t, again, appendRecord(nil, back))
	})
}

// heartbeatRecord is what a replay mostly consists of.
func heartbeatRecord() *lease.Record {
	return &lease.Record{Kind: lease.KindHeartbeat, Instance: author, Seq: 123456, Heartbeat: lease.Heartbeat{
		Topics: []lease.TopicProgress{{Topic: "orders-incoming", TopicID: lease.TopicID{9, 8, 7}, Partitions: []int32{3, 17, 42},
			Epochs: []int64{1_234_567, 1_234_568, 1_300_000}, Next: []int64{987_654_321, 12_345_678, 55_555_555}}},
		Load: lease.Load{InFlight: 120, Lag: 4000}, P: 1_400_000, Hash: 0x1122334455667788,
	}}
}

// A settled group writes one record of well under 200 bytes per member and heartbeat, and a dozen bytes more for each
// position that has moved. The message's key, the group's name, and Kafka's own frame come on top.
func TestAHeartbeatIsSmall(t *testing.T) {
	size := func(positions int, changed func(r *lease.Record)) int {
		r := &lease.Record{Kind: lease.KindHeartbeat, Version: lease.WireVersion, Instance: lease.InstanceID{1}, Seq: 1 << 20}
		r.Heartbeat = lease.Heartbeat{P: 1 << 32, Hash: math.MaxUint64, Load: lease.Load{InFlight: 1000, Lag: 1 << 20}}
		if positions > 0 {
			p := lease.TopicProgress{Topic: "orders.eu-west.00017", TopicID: lease.TopicID{1}}
			for i := range positions {
				p.Partitions = append(p.Partitions, int32(i*50))
				p.Epochs, p.Next = append(p.Epochs, 1<<30), append(p.Next, 1<<34)
			}
			r.Heartbeat.Topics = []lease.TopicProgress{p}
		}
		if changed != nil {
			changed(r)
		}
		return len(appendRecord(nil, r))
	}
	idle, one, three, hundred := size(0, nil), size(1, nil), size(3, nil), size(100, nil)
	largest := size(0, func(r *lease.Record) {
		r.Seq, r.Heartbeat.P, r.Heartbeat.Announces = math.MaxUint64, math.MaxInt64, true
		r.Heartbeat.Load = lease.Load{InFlight: math.MaxInt64, Lag: math.MaxInt64}
	})
	t.Logf("idle %d, at most %d; one position %d, three %d, a hundred of one topic %d", idle, largest, one, three, hundred)
	assert.LessOrEqual(t, idle, 52)
	assert.Less(t, largest, 80, "whatever the numbers are")
	assert.Less(t, three, 200)
	assert.LessOrEqual(t, (hundred-one)/99, 12, "a position")
}

func BenchmarkDecodeHeartbeat(b *testing.B) {
	value := appendRecord(nil, heartbeatRecord())
	var d decoder
	var rec lease.Record
	b.ReportAllocs()
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		d.decode(value, &rec)
	}
	if len(rec.Heartbeat.Topics) != 1 {
		b.Fatal("not decoded")
	}
}

func BenchmarkEncodeHeartbeat(b *testing.B) {
	rec := heartbeatRecord()
	var value []byte
	b.ReportAllocs()
	for b.Loop() {
		value = appendRecord(value[:0], rec)
	}
	b.SetBytes(int64(len(value)))
}
