package member

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// settable makes a field that is not exported one that can be set.
func settable(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// fill puts something into every field, one element into every slice and map.
func fill(v reflect.Value, leaveOut map[string]string, path string) {
	if leaveOut[path] != "" {
		return
	}
	v = settable(v)
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(3)
	case reflect.String:
		v.SetString("s")
	case reflect.Array:
		v.Index(0).SetUint(3)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), leaveOut, path+"."+v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), leaveOut, path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), leaveOut, path)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, leaveOut, path)
		fill(value, leaveOut, path)
		v.SetMapIndex(key, value)
	}
}

// change changes every field in turn, calls look, and changes it back.
func change(v reflect.Value, leaveOut map[string]string, path string, look func(path string)) {
	if leaveOut[path] != "" {
		return
	}
	v = settable(v)
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	try := func(path string) {
		look(path)
		v.Set(was)
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
		try(path)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
		try(path)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() + 1)
		try(path)
	case reflect.String:
		v.SetString("o")
		try(path)
	case reflect.Array:
		v.Index(0).SetUint(v.Index(0).Uint() + 1)
		try(path)
	case reflect.Struct:
		for i := range v.NumField() {
			change(v.Field(i), leaveOut, path+"."+v.Type().Field(i).Name, look)
		}
	case reflect.Pointer:
		change(v.Elem(), leaveOut, path, look)
	case reflect.Slice:
		change(v.Index(0), leaveOut, path, look)
		v.SetLen(0)
		try(path + " emptied")
	case reflect.Map:
		key := v.MapKeys()[0]
		k, value := reflect.New(key.Type()).Elem(), reflect.New(v.Type().Elem()).Elem()
		k.Set(key)
		value.Set(v.MapIndex(key))
		change(k, leaveOut, path+" key", func(path string) {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(k, value)
			try(path)
		})
		change(value, leaveOut, path, func(path string) {
			v.SetMapIndex(key, value)
			look(path)
		})
		v.SetMapIndex(key, value)
		v.Set(reflect.MakeMap(v.Type()))
		try(path + " emptied")
	}
}

// derived are the fields that follow from others, or from what a member was made with.
var derived = map[string]string{
	".cfg":              "what it was made with",
	".s":                "what it shares with others",
	".out":              "empty between two calls",
	".join.first":       "what said and the start say, until it is read back",
	".watch.byID":       "peers by id",
	".watch.turn":       "counts changes, only to be compared with paced, rank and proof",
	".watch.dead":       "how many peers are",
	".watch.paced":      "whether pace is worked out already",
	".watch.proof":      "worked out from peers and own",
	".watch.peers.rank": "worked out from peers",
	".claims.plan":      "of version",
	".claims.version":   "whether it is the world's",
	".claims.written":   "whether it is version, while a Release is under way",
	".claims.moves":     "of plan",
	".claims.over":      "of plan",
	".claims.subjects":  "of want",
	".claims.pinned":    "of want",
	".seeks.d.Kind":     "all are Seeks",
}

// alone is a world without anybody.
func alone() *Shared {
	return &Shared{Log: history.NewLog(history.Base{World: lease.NewWorld(lease.TopicID{})})}
}

// What the canonical form leaves out the explorer cannot tell apart, and takes two states for one.
func TestTheCanonicalFormShowsEveryField(t *testing.T) {
	m := Member{s: alone()}
	fill(reflect.ValueOf(&m).Elem(), derived, "")
	before := string(m.AppendBinary(nil, 0, 2*Never, 1))
	fields := 0
	change(reflect.ValueOf(&m).Elem(), derived, "", func(path string) {
		fields++
		switch path {
		case ".claims.kept", ".claims.reclaimed", ".claims.ready": // sets: a key that is in one is true
		default:
			assert.NotEqual(t, before, string(m.AppendBinary(nil, 0, 2*Never, 1)), path)
		}
	})
	require.Equal(t, before, string(m.AppendBinary(nil, 0, 2*Never, 1)), "all was changed back")
	require.Greater(t, fields, 100)
}

// Two that go the same way at different times are in the same state; one whose other clocks went their own way is not.
func TestTheCanonicalFormTellsTimesFromNow(t *testing.T) {
	form := func(start, wall, boot time.Duration) string {
		s := newScript(t)
		s.now = start
		p := s.process("p", Config{}, want(some(3)))
		s.process("q", Config{}, want(some(3)))
		s.pass(10 * time.Second)
		p.wall, p.boot = wall, boot
		p.do(p.m.Tick(p.clock(true)))
		p.do(p.m.Flush(p.clock(false)))
		require.NotEmpty(t, p.m.own.sent)
		return string(p.m.AppendBinary(nil, p.m.now, time.Minute, 1))
	}
	same := form(time.Hour, 0, 0)
	assert.Equal(t, same, form(3*time.Hour, 0, 0))
	assert.NotEqual(t, same, form(time.Hour, ms, 0), "the wall clock ran ahead")
	assert.NotEqual(t, same, form(time.Hour, 0, ms), "the boot clock ran ahead")
}

func TestTheCanonicalFormShowsHowLongTrustLasts(t *testing.T) {
	m, _, _ := settledMember(t, 2)
	require.NotZero(t, m.own.trust)
	form := func() string { return string(m.AppendBinary(nil, 0, 2*Never, 1)) }
	before := form()
	m.own.trust.Mono += time.Second
	m.own.trust.Wall += time.Second
	longer := form()
	assert.NotEqual(t, before, longer, "all clocks alike")
	m.own.trust = Now{}
	none := form()
	assert.NotContains(t, []string{before, longer}, none)
	m.own.trust = Now{Mono: m.now - 2*time.Hour, Wall: 1}
	assert.NotEqual(t, none, form(), "long past is not never")
}

func TestTheCanonicalFormShowsThatTheWorldHasMovedOn(t *testing.T) {
	m, log, _ := settledMember(t, 2)
	before := string(m.AppendBinary(nil, 0, 2*Never, 1))
	p, _ := log.Position()
	rec := lease.Record{Kind: lease.KindJoin, Instance: instance("other"), Seq: 1, Offset: p + 1, Join: lease.Join{Client: "o", TTL: time.Minute}}
	log.Take(&rec, nil, nil)
	assert.NotEqual(t, before, string(m.AppendBinary(nil, 0, 2*Never, 1)))
}

// What is written one after the other cannot be read in two ways.
func TestTheCanonicalFormMarksWhereEachPartEnds(t *testing.T) {
	form := func(put func(*encoder)) string {
		var e encoder
		put(&e)
		return string(e.b)
	}
	assert.NotEqual(t, form(func(e *encoder) { e.str("ab"); e.str("c") }), form(func(e *encoder) { e.str("a"); e.str("bc") }))
	key := lease.Key{Topic: "t"}
	one := map[lease.Key]bool{key: true}
	assert.NotEqual(t, form(func(e *encoder) { each(e, one, func(bool) {}); each(e, nil, func(bool) {}) }),
		form(func(e *encoder) { each(e, nil, func(bool) {}); each(e, one, func(bool) {}) }))
	assert.NotEqual(t, form(func(e *encoder) { e.content(content{pinned: []lease.Key{key}}); e.content(content{}) }),
		form(func(e *encoder) { e.content(content{}); e.content(content{pinned: []lease.Key{key}}) }))
	assert.Len(t, form(func(e *encoder) { e.bit(true, false) }), 2)
}

// shared lists the maps, slices and pointers that two values have in common.
func shared(a, b reflect.Value, path string) (paths []string) {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			paths = append(paths, shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)...)
		}
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return nil
		}
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}
		paths = shared(a.Elem(), b.Elem(), path)
	case reflect.Slice:
		if a.Len() == 0 || b.Len() == 0 {
			return nil
		}
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}
		paths = shared(a.Index(0), b.Index(0), path)
	case reflect.Map:
		if a.Len() == 0 || b.Len() == 0 {
			return nil
		}
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}
		paths = shared(a.MapIndex(a.MapKeys()[0]), b.MapIndex(b.MapKeys()[0]), path)
	}
	return paths
}

func TestACloneSharesNothingThatChanges(t *testing.T) {
	var m Member
	v := reflect.ValueOf(&m).Elem()
	fill(v, map[string]string{".s": "shared", ".claims.plan": "never changed"}, "")
	other := alone()
	m.s = alone()
	c := m.Clone(other)
	assert.Same(t, other, c.s)
	for _, path := range shared(v, reflect.ValueOf(c).Elem(), "") {
		whole := false
		for _, replaced := range []string{".join.", ".claims.want.", ".out."} { // set anew as a whole, never changed
			whole = whole || strings.HasPrefix(path, replaced)
		}
		assert.True(t, whole, path)
	}
	assert.Same(t, c.watch.peers[0], c.watch.byID[c.watch.peers[0].id])
	assert.Nil(t, c.watch.proof.of, "it is one of the other's")
	assert.Equal(t, m.AppendBinary(nil, 0, 2*Never, 1), c.AppendBinary(nil, 0, 2*Never, 1))
	assert.Nil(t, (&Member{}).Clone(other).claims.run)
}

// By which plan a Release that is on its way was written counts while it is, and only whether it is the present one.
func TestTheCanonicalFormShowsThatAReleaseIsOfAnOlderPlan(t *testing.T) {
	m, _, _ := settledMember(t, 2)
	form := func(releasing bool, written uint64) string {
		m.claims.releasing = map[lease.Key]uint64{}
		if releasing {
			m.claims.releasing[part(0)] = 7
		}
		m.claims.written = written
		return string(m.AppendBinary(nil, 0, 2*Never, 1))
	}
	now := m.claims.version
	assert.NotEqual(t, form(true, now), form(true, now+1))
	assert.Equal(t, form(true, now+1), form(true, now+2))
	assert.Equal(t, form(false, now), form(false, now+1))
}
