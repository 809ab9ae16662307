package marshal

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// schema is the message Record of record.proto, compiled by somebody else's compiler.
func schema(t testing.TB) protoreflect.MessageDescriptor {
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := c.Compile(t.Context(), "record.proto")
	require.NoError(t, err)
	d := files[0].Messages().ByName("Record")
	require.NotNil(t, d)
	return d
}

// msg is a message by the names of record.proto. Zero values and nil slices stay unset.
type msg map[string]any

func (m msg) proto(d protoreflect.MessageDescriptor) *dynamicpb.Message {
	out := dynamicpb.NewMessage(d)
	for name, v := range m {
		f := d.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			panic(fmt.Sprintf("%s has no field %s", d.Name(), name))
		}
		switch v := v.(type) {
		case msg:
			out.Set(f, protoreflect.ValueOfMessage(v.proto(f.Message())))
		case []msg:
			for _, e := range v {
				out.Mutable(f).List().Append(protoreflect.ValueOfMessage(e.proto(f.Message())))
			}
		case []int32:
			for _, e := range v {
				out.Mutable(f).List().Append(protoreflect.ValueOfInt32(e))
			}
		case []int64:
			for _, e := range v {
				out.Mutable(f).List().Append(protoreflect.ValueOfInt64(e))
			}
		case protoreflect.EnumNumber:
			out.Set(f, protoreflect.ValueOfEnum(v))
		default:
			if f.HasPresence() || !reflect.ValueOf(v).IsZero() {
				out.Set(f, protoreflect.ValueOf(v))
			}
		}
	}
	return out
}

func idBytes(id [16]byte) []byte {
	if id == ([16]byte{}) {
		return nil
	}
	return id[:]
}

// asMessage says a record in the words of record.proto.
func asMessage(r *lease.Record) msg {
	m := msg{"seq": r.Seq}
	set := func(m msg, name string, id [16]byte) msg {
		if b := idBytes(id); b != nil {
			m[name] = b
		}
		return m
	}
	set(m, "instance", r.Instance)
	keys := func(keys []lease.Key) (out []msg) {
		for _, k := range keys {
			out = append(out, msg{"topic": k.Topic, "partition": k.Partition})
		}
		return out
	}
	released := func(keys []lease.ReleasedKey) (out []msg) {
		for _, k := range keys {
			out = append(out, set(msg{"topic": k.Key.Topic, "partition": k.Key.Partition, "epoch": k.Epoch,
				"partitions": k.Partitions, "next": k.Next}, "topic_id", k.TopicID))
		}
		return out
	}
	switch r.Kind {
	case lease.KindJoin:
		j, interests := r.Join, []msg(nil)
		for _, in := range j.Interests {
			var topics []msg
			for _, t := range in.Topics {
				topics = append(topics, msg{"topic": t.Topic, "partitions": t.Partitions})
			}
			interests = append(interests, msg{"topics": topics, "whole": in.Whole, "max": in.Max, "weight": in.Weight, "greedy": in.Greedy})
		}
		m["join"] = set(msg{"client": j.Client, "host": j.Host, "ttl_ns": int64(j.TTL), "max_version": uint32(j.MaxVersion),
			"token_base": j.TokenBase, "interests": interests, "pinned": keys(j.Pinned)}, "topic_id", j.TopicID)
	case lease.KindHeartbeat:
		h := r.Heartbeat
		var topics []msg
		for _, t := range h.Topics {
			topics = append(topics, set(msg{"topic": t.Topic, "partitions": t.Partitions, "epochs": t.Epochs, "next": t.Next}, "topic_id", t.TopicID))
		}
		hb := msg{"topics": topics, "in_flight": h.Load.InFlight, "lag": h.Load.Lag, "hash": h.Hash, "announces": h.Announces}
		if h.P >= 0 {
			hb["p"] = h.P
		}
		m["heartbeat"] = hb
	case lease.KindClaim:
		m["claim"] = msg{"keys": keys(r.Claim.Keys), "atomic": r.Claim.Atomic}
	case lease.KindRelease:
		m["release"] = set(msg{"keys": released(r.Release.Keys), "unfit": r.Release.Unfit}, "successor", r.Release.Successor)
	case lease.KindLeave:
		m["leave"] = msg{"keys": released(r.Release.Keys), "keep": r.Leave.Keep, "grace_ns": int64(r.Leave.Grace)}
	case lease.KindEvict:
		var targets []msg
		for _, t := range r.Evict.Targets {
			targets = append(targets, set(msg{"renewed": t.Renewed}, "instance", t.Instance))
		}
		m["evict"] = msg{"targets": targets, "takeover": r.Evict.Takeover}
	case lease.KindDirective:
		d := r.Directive
		dir := set(msg{"kind": protoreflect.EnumNumber(d.Kind), "topic": d.Key.Topic, "partition": d.Key.Partition, "next": d.Next}, "topic_id", d.TopicID)
		if d.Epoch != lease.NoEpoch {
			dir["epoch"] = d.Epoch
		}
		m["directive"] = dir
	case lease.KindSnapshot:
		s := r.Snapshot
		m["snapshot"] = set(set(msg{"upto": s.Upto, "index": s.Index, "count": s.Count, "chunk": s.Chunk}, "author", s.Author), "topic_id", s.TopicID)
	case lease.KindBase:
		m["base"] = msg{"seen": r.Base.Seen, "token_base": r.Base.TokenBase}
	case lease.KindProbe:
		m["probe"] = msg{"nonce": r.Probe.Nonce, "wants_base": r.Probe.WantsBase}
	}
	return m
}

// fieldsSet notes each field of the schema that m has set, as message.field.
func fieldsSet(m protoreflect.Message, seen map[string]bool) {
	for f, v := range m.Range {
		seen[string(f.FullName())] = true
		switch {
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				fieldsSet(v.List().Get(i).Message(), seen)
			}
		case f.Message() != nil:
			fieldsSet(v.Message(), seen)
		}
	}
}

func allFields(d protoreflect.MessageDescriptor, all map[string]bool) {
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		all[string(f.FullName())] = true
		if f.Message() != nil {
			allFields(f.Message(), all)
		}
	}
}

// leaves notes each field of a struct that is not zero, by its path of names.
func leaves(v reflect.Value, path string, seen map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), path+"."+v.Type().Field(i).Name, seen)
		}
	case reflect.Slice:
		for i := range v.Len() {
			leaves(v.Index(i), path, seen)
		}
		seen[path] = seen[path] || v.Len() > 0
	default:
		seen[path] = seen[path] || !v.IsZero()
	}
}

func TestRecordsAreWhatRecordProtoSays(t *testing.T) {
	d := schema(t)
	r := rand.New(rand.NewPCG(1, 1))
	set, travelled := map[string]bool{}, map[string]bool{}
	for i := range 20_000 {
		rec := randomRecord(r)
		want := asMessage(rec).proto(d)
		fieldsSet(want, set)
		leaves(reflect.ValueOf(*rec), "Record", travelled)

		ours := appendRecord([]byte("before"), rec)[len("before"):]
		require.Equal(t, []byte{0, 2}, ours[:2])
		got := dynamicpb.NewMessage(d)
		require.NoError(t, proto.Unmarshal(ours[2:], got))
		require.True(t, proto.Equal(want, got), "record %d: %v\nencoded as %v", i, want, got)
		require.Empty(t, got.GetUnknown())

		theirs, err := proto.Marshal(want)
		require.NoError(t, err)
		var back lease.Record
		new(decoder).decode(append([]byte{0, 2}, theirs...), &back)
		require.Equal(t, rec, &back, "record %d: %v", i, want)
	}

	all := map[string]bool{}
	allFields(d, all)
	for name := range all {
		assert.True(t, set[name], "no record had %s set", name)
	}
	for path, filled := range travelled {
		switch path {
		case "Record.Offset", "Record.Timestamp": // Kafka's
		default:
			assert.True(t, filled, "no record had %s set", path)
		}
	}
}

// withUnknown encodes m with the bytes of unknown fields before, between and after those of m and of every message in it.
func withUnknown(m protoreflect.Message, unknown []byte) []byte {
	out := append([]byte(nil), unknown...)
	one := func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
		if f.Message() != nil {
			out = protowire.AppendTag(out, f.Number(), protowire.BytesType)
			out = protowire.AppendBytes(out, withUnknown(v.Message(), unknown))
		} else {
			single := dynamicpb.NewMessage(m.Descriptor())
			single.Set(f, v)
			b, err := proto.Marshal(single)
			if err != nil {
				panic(err)
			}
			out = append(out, b...)
		}
		out = append(out, unknown...)
	}
	for f, v := range m.Range {
		if f.IsList() && f.Message() != nil {
			for i := range v.List().Len() {
				one(f, v.List().Get(i))
			}
			continue
		}
		one(f, v)
	}
	return out
}
