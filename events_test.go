package marshal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/testutil"
)

// ear remembers the events of a Marshaler or a Consumer.
type ear struct {
	mu   sync.Mutex
	all  []Event
	wg   sync.WaitGroup
	done chan struct{} // closed when the sequence has ended
}

func listen(t *testing.T, of interface {
	Events(context.Context) iter.Seq[Event]
}) *ear {
	ctx, cancel := context.WithCancel(context.Background())
	h := &ear{done: make(chan struct{})}
	events := of.Events(ctx)
	h.wg.Go(func() {
		defer close(h.done)
		for e := range events {
			h.mu.Lock()
			h.all = append(h.all, e)
			h.mu.Unlock()
		}
	})
	t.Cleanup(func() { cancel(); h.wg.Wait() })
	return h
}

func (h *ear) of(kinds ...EventKind) []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var es []Event
	for _, e := range h.all {
		if len(kinds) == 0 || slices.Contains(kinds, e.Kind) {
			es = append(es, e)
		}
	}
	return es
}

// wait waits for an event of a kind and gives the first.
func (h *ear) wait(t *testing.T, kind EventKind) Event {
	t.Helper()
	eventually(t, kind.String(), func() bool { return len(h.of(kind)) > 0 })
	return h.of(kind)[0]
}

func TestEveryKindOfEventHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for k := MemberJoined; k <= Trouble; k++ {
		text, err := k.MarshalText()
		require.NoError(t, err)
		assert.NotContains(t, string(text), "(")
		assert.False(t, seen[string(text)], k)
		seen[string(text)] = true
		var back EventKind
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, k, back)
	}
	assert.Len(t, kindNames, int(Trouble)+1)
	assert.Equal(t, "ClaimStarted", ClaimStarted.String())
	assert.Equal(t, "Trouble", Trouble.String())
	assert.Equal(t, "EventKind(99)", EventKind(99).String())
	assert.Equal(t, "EventKind(-1)", EventKind(-1).String())
	var k EventKind
	assert.ErrorContains(t, k.UnmarshalText([]byte("Nonsense")), "Nonsense")
}

func TestAnEventAsJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, e := range map[string]Event{
		`{"time":"2026-01-02T03:04:05Z","kind":"PartitionFailed","group":"g","topic":"t","partition":0,"offset":0,"token":7,"err":"bad","text":"no"}`: {
			Kind: PartitionFailed, Group: "g", Topic: "t", Token: 7, Err: errors.New("bad"), Text: "no"},
		`{"time":"2026-01-02T03:04:05Z","kind":"TopicChanged","topic":"t","text":"grew","missed":3}`: {
			Kind: TopicChanged, Topic: "t", Partition: -1, Text: "grew", Missed: 3},
		`{"time":"2026-01-02T03:04:05Z","kind":"MemberJoined","client":"c","instance":"i","text":"x"}`: {
			Kind: MemberJoined, Partition: -1, Client: "c", Instance: "i", Text: "x"},
	} {
		e.Time = at
		got, err := json.Marshal(e)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(got))
	}
}

func TestEventsComeInOrderFromTheCallOnAndEndWithTheLast(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	before := listen(t, m)
	c := b.consumer(m, ConsumerOptions{}, "t")
	own := listen(t, c)
	eventually(t, "claims", func() bool { return len(before.of(ClaimStarted)) == 4 })
	late := c.Events(context.Background()) // from here on, although it is looked at only when all is over
	started := before.of(ClaimStarted)
	slices.SortFunc(started, func(a, b Event) int { return int(a.Partition - b.Partition) })
	for i, e := range started {
		assert.Equal(t, "t", e.Topic)
		assert.EqualValues(t, i, e.Partition)
		assert.Positive(t, e.Token)
		assert.Equal(t, testGroup, e.Group)
		assert.Equal(t, fmt.Sprintf("t/%d is ours", i), e.Text)
	}
	require.True(t, c.Terminate(true))
	<-own.done
	assert.Len(t, own.of(ClaimReleased), 4, "its last events still come")
	var kinds []EventKind
	for e := range late {
		kinds = append(kinds, e.Kind)
	}
	assert.Len(t, slices.DeleteFunc(slices.Clone(kinds), func(k EventKind) bool { return k != ClaimReleased }), 4)
	assert.NotContains(t, kinds, ClaimStarted)
	for range c.Events(context.Background()) {
		t.Error("it is over")
	}
	assert.Empty(t, before.of(MemberLeft))
	m.Terminate()
	<-before.done
	left := before.wait(t, MemberLeft)
	assert.Equal(t, "a", left.Client)
	all := before.of()
	assert.True(t, slices.IsSortedFunc(all, func(a, b Event) int { return a.Time.Compare(b.Time) }))
	assert.Equal(t, MemberLeft, all[len(all)-1].Kind)
	for range m.Events(context.Background()) {
		t.Error("it is over")
	}
}

func TestKeptClaimsAreReleasedForTheirConsumerTheLastItHears(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	heard := listen(t, c)
	eventually(t, "claims", func() bool { return len(heard.of(ClaimStarted)) == 4 })
	require.True(t, c.Terminate(false))
	<-heard.done
	assert.Len(t, heard.of(ClaimReleased), 4)
	assert.Empty(t, heard.of(ClaimLost))
}

func TestEventsEndWithTheContext(t *testing.T) {
	b := newBench(t)
	m := b.marshaler("a")
	ctx, cancel := context.WithCancel(context.Background())
	events := m.Events(ctx)
	assert.True(t, m.hearers.any())
	cancel()
	for range events {
		t.Error("its context has ended")
	}
	eventually(t, "nobody who listens", func() bool { return !m.hearers.any() })
}

func TestASlowListenerLosesTheOldestAndIsToldHowMany(t *testing.T) {
	var hs hearers
	over := make(chan struct{})
	slow := hs.listen(context.Background(), nil, over)
	for i := range eventQueue + 10 {
		hs.tell(Event{Kind: Trouble, Offset: int64(i)})
	}
	var got []Event
	for e := range slow {
		got = append(got, e)
		if len(got) == 5 {
			for i := range 3 {
				hs.tell(Event{Kind: Trouble, Offset: int64(eventQueue + 10 + i)})
			}
		}
		if len(got) == eventQueue+3 {
			break
		}
	}
	assert.EqualValues(t, 10, got[0].Missed)
	for i, e := range got {
		require.EqualValues(t, i+10, e.Offset)
		if i > 0 {
			require.Zero(t, e.Missed)
		}
	}
	assert.False(t, hs.any(), "who breaks the loop listens no more")
}

func TestAListenerOfAConsumerHearsWhatConcernsIt(t *testing.T) {
	c := &Consumer{names: []string{"t"}, m: &Marshaler{clientID: "me"}}
	for _, x := range []struct {
		e    Event
		want bool
	}{
		{Event{Kind: ClaimStarted, Topic: "t"}, true},
		{Event{Kind: ClaimStarted, Topic: "u"}, false},
		{Event{Kind: TopicChanged, Topic: "u"}, false},
		{Event{Kind: HandOutSuspended}, true},
		{Event{Kind: UpgradeNeeded}, true},
		{Event{Kind: MemberEvicted, Client: "me"}, true},
		{Event{Kind: MemberEvicted, Client: "other"}, false},
		{Event{Kind: MemberJoined, Client: "other"}, false},
		{Event{Kind: ClientIDInUse, Client: "me"}, true},
	} {
		assert.Equal(t, x.want, c.hears(&x.e), x.e)
	}
}

func TestWithoutListenersAnEventAllocatesNothing(t *testing.T) {
	m := &Marshaler{groupID: "g"}
	cl := &claim{m: m, key: lease.Key{Topic: "t"}}
	assert.Zero(t, testing.AllocsPerRun(100, func() { cl.hear(ClaimStarted, "is ours") }))
}

func TestAThousandClaimsAreOneLineAndAThousandEvents(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("wide", 1000, nil))
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log))
	heard := listen(t, m)
	b.consumer(m, ConsumerOptions{}, "wide")
	eventually(t, "claims", func() bool { return len(heard.of(ClaimStarted)) == 1000 })
	eventually(t, "a line", func() bool { return seen.has("info", "holds wide [1000 partitions]") })
	seen.mu.Lock()
	defer seen.mu.Unlock()
	assert.Less(t, len(seen.texts), 20)
	for _, e := range heard.of() {
		assert.Zero(t, e.Missed)
	}
}

func TestWhoComesAndGoesIsHeard(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	m := b.marshaler("a")
	heard := listen(t, m)
	c := b.consumer(m, ConsumerOptions{}, "t")
	own := listen(t, c)
	m2 := b.marshaler("b")
	c2 := b.consumer(m2, ConsumerOptions{ClaimEntireTopic: true}, "t")
	assert.Equal(t, "b", heard.wait(t, MemberJoined).Client)
	mixed := heard.wait(t, MixedClaims)
	assert.Equal(t, []any{"t", int32(-1), "b"}, []any{mixed.Topic, mixed.Partition, mixed.Client})
	c2.Terminate(true)
	c2 = b.consumer(m2, ConsumerOptions{}, "t")
	heard.wait(t, ClaimDraining)
	assert.Contains(t, heard.wait(t, ClaimReleased).Text, "was handed over to b (")
	c2.Terminate(false)
	m2.Terminate()
	parked := heard.wait(t, MemberParked)
	assert.Equal(t, "b", parked.Client)
	assert.Len(t, parked.Instance, 8)
	m3 := b.marshaler("c")
	b.crash(m3)
	evicted := heard.wait(t, MemberEvicted)
	assert.Equal(t, "c", evicted.Client)
	assert.Contains(t, evicted.Text, "was silent for its lease")
	b.marshaler("d").Terminate()
	assert.Equal(t, "d", heard.wait(t, MemberLeft).Client)
	assert.Empty(t, own.of(MemberJoined, MemberEvicted, MemberLeft, MemberParked), "others are not the consumer's matter")
	own.wait(t, MixedClaims)
}

func TestSuspensionAndEvictionAreHeard(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a", WithLease(time.Second, 0))
	c := b.consumer(m, ConsumerOptions{}, "t")
	own := listen(t, c)
	eventually(t, "claims", func() bool { return len(own.of(ClaimStarted)) == 4 })
	b.marshaler("b", WithLease(time.Second, 0)) // who evicts it
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Cut})
	suspended := own.wait(t, HandOutSuspended)
	assert.Equal(t, "a", suspended.Client)
	evicted := own.wait(t, MemberEvicted)
	assert.Contains(t, evicted.Text, "declared dead by b (")
	lost := own.of(ClaimLost)
	require.Len(t, lost, 4)
	assert.ErrorIs(t, lost[0].Err, ErrClaimLost)
	assert.ErrorContains(t, lost[0].Err, "evicted by b (")
	assert.Contains(t, lost[0].Text, fmt.Sprintf("claim of t/%d lost: ", lost[0].Partition))
	f.Remove()
	own.wait(t, HandOutResumed)
	assert.Equal(t, "a", own.wait(t, MemberJoined).Client, "it joins again")
}

func TestTopicLifeIsHeard(t *testing.T) {
	b := newBench(t)
	m := b.marshaler("a")
	heard := listen(t, m)
	c := b.consumer(m, ConsumerOptions{}, "t")
	own := listen(t, c)
	assert.Equal(t, "topic t does not exist; asked for again every 100ms", heard.wait(t, TopicChanged).Text)
	require.NoError(t, b.CreateTopic("t", 2, nil))
	says := func(text string) {
		t.Helper()
		eventually(t, text, func() bool {
			return slices.ContainsFunc(own.of(TopicChanged), func(e Event) bool { return e.Topic == "t" && e.Partition == -1 && e.Text == text })
		})
	}
	says("topic t is there, with 2 partitions")
	b.grow("t", 3)
	says("topic t has 3 partitions now, it had 2")
	require.NoError(t, b.DeleteTopic("t"))
	says("topic t does not exist; asked for again every 100ms")
	require.NoError(t, b.CreateTopic("t", 3, nil))
	says("topic t was recreated; its partitions begin anew")
}

func TestAStalledAndACutPartitionAreHeard(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 1, 0, 100)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{MaxInFlight: 20, CommitInterval: 20 * time.Millisecond, DrainTimeout: 50 * time.Millisecond}, "t")
	own := listen(t, c)
	hold(t, c, 20) // nobody waits for more
	stalled := own.wait(t, ClaimStalled)
	assert.ErrorIs(t, stalled.Err, ErrStalled)
	assert.Equal(t, []any{"t", int32(0)}, []any{stalled.Topic, stalled.Partition})
	require.True(t, c.Terminate(true))
	cut := own.wait(t, DrainCut)
	assert.Contains(t, cut.Text, "handing t/0 over with 20 messages unfinished")
	assert.Positive(t, cut.Token)
}

func TestAPartitionThatCannotBeReadIsHeard(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	defer b.OnBatch("t", 2, brokenAt(0, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }))()
	own := listen(t, b.consumer(b.marshaler("a"), ConsumerOptions{}, "t"))
	e := own.wait(t, PartitionFailed)
	assert.Equal(t, []any{"t", int32(2), int64(0)}, []any{e.Topic, e.Partition, e.Offset})
	var failure *PartitionError
	require.ErrorAs(t, e.Err, &failure)
	assert.EqualValues(t, 2, failure.Partition)
}

func TestAForeignSnapshotAndANewerVersionAreHeard(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	heard := listen(t, m)
	own := listen(t, b.consumer(m, ConsumerOptions{}, "t"))
	eventually(t, "claims", func() bool { return len(heard.of(ClaimStarted)) == 4 })
	m.g.mu.Lock()
	m.g.emit(logrus.ErrorLevel, Event{Kind: HistoryDiffers, Text: "the snapshot differs"})
	m.notice(member.Notice{Kind: member.UpgradeNeeded})
	m.g.mu.Unlock()
	own.wait(t, HistoryDiffers)
	e := own.wait(t, UpgradeNeeded)
	assert.ErrorIs(t, e.Err, ErrUpgradeNeeded)
	assert.ErrorIs(t, m.Healthy(), ErrUpgradeNeeded)
}

func TestTroubleWithTheBrokersIsHeard(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	m := b.marshaler("a")
	heard := listen(t, m)
	f := b.Faults().Add(testutil.Fault{Client: "a", Do: testutil.Cut})
	defer f.Remove()
	says := func(text string) {
		t.Helper()
		eventually(t, text, func() bool {
			return slices.ContainsFunc(heard.of(Trouble), func(e Event) bool { return e.Err != nil && len(e.Text) > len(text) && e.Text[:len(text)] == text })
		})
	}
	says("cannot read the coordination topic (__marshal/")
	says("cannot write to the coordination topic, leases will end if it lasts: ")
	assert.ErrorContains(t, m.Healthy(), "cannot read __marshal/")
}
