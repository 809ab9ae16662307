package marshal

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// Everything at once: a few processes in one group make random calls of the whole API while their network fails. Afterwards all of
// it must have ended in time, no message may be lost but where a Seek went forward, none may come again that was finished but where a
// Seek went back or a claim was lost, and the log must hold what the protocol demands.
//
//	go test -run TestRandomCallsOfEverybody -chaos.seed 7 -chaos.time 20s .
var (
	chaosSeed = flag.Uint64("chaos.seed", 0, "seed of TestRandomCallsOfEverybody; 0: another each time")
	chaosTime = flag.Duration("chaos.time", 3*time.Second, "how long it makes calls")
)

// storm is one run of it. Topics: "t" is shared and never sought, "s" is sought, "w" is claimed as a whole, "h" by hand alone.
type storm struct {
	*bench
	seed  uint64
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup
	made  atomic.Int64
	calls atomic.Int64
	slow  atomic.Int64 // calls that took longer than they may

	mu      sync.Mutex
	actors  []*actor // that live
	all     []*actor
	written map[testutil.Place]int64
	excused map[int64]bool // tokens of claims that were lost: what was finished under them may come again
	kept    map[int64]bool // tokens of claims that a consumer of the same process may go on under: Terminate(false) kept them, or they were by hand
}

// actor is one run of one process.
type actor struct {
	s    *storm
	m    *Marshaler
	name string

	mu        sync.Mutex
	consumers []*Consumer
	log       testutil.ProcessLog // what was handed out, and what was about to be finished
	sure      []testutil.Finish   // and what was finished without an error
}

func (s *storm) random(n uint64) *rand.Rand { return rand.New(rand.NewPCG(s.seed, n)) }

// within makes a call and checks that it ends in time. What a call may take beside its own limit is what a busy machine takes.
func (s *storm) within(limit time.Duration, what string, call func()) {
	begin := time.Now()
	call()
	s.calls.Add(1)
	if took := time.Since(begin); took > limit+4*time.Second {
		s.slow.Add(1)
		s.t.Errorf("%s took %v, its limit is %v", what, took, limit)
	}
}

// briefly gives a context that lasts for up to most.
func briefly(r *rand.Rand, most time.Duration) (context.Context, context.CancelFunc, time.Duration) {
	d := time.Duration(r.Int64N(int64(most)))
	ctx, cancel := context.WithTimeout(context.Background(), d)
	return ctx, cancel, d
}

// join begins a process; nil: it could not in time.
func (s *storm) join(client string) *actor {
	m, err := NewMarshaler(client, testGroup, s.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(s.t)))
	if err != nil {
		return nil // a fault was in the way for too long
	}
	a := &actor{s: s, m: m, name: fmt.Sprintf("%s.%d", client, s.made.Add(1))}
	a.log.Process, a.log.Client = a.name, client
	events := m.Events(context.Background())
	s.wg.Go(func() {
		for e := range events {
			if e.Kind == ClaimLost || e.Missed > 0 {
				s.excuse(e.Token)
			}
			if h, ok := holdingOf(e); ok {
				a.mu.Lock()
				a.log.Holdings = append(a.log.Holdings, h)
				a.mu.Unlock()
			}
			if e.Missed > 0 {
				s.t.Errorf("%s missed %d events", a.name, e.Missed)
			}
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.actors = append(s.actors, a)
	s.all = append(s.all, a)
	return a
}

func (s *storm) excuse(token int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.excused[token] = true
}

func (s *storm) actor(r *rand.Rand) *actor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.actors) == 0 {
		return nil
	}
	return s.actors[r.IntN(len(s.actors))]
}

// consume adds a consumer and reads it in one way or more.
func (a *actor) consume(r *rand.Rand, o ConsumerOptions, topics ...string) {
	o.WatchInterval, o.DrainTimeout, o.CommitInterval = 100*time.Millisecond, 300*time.Millisecond, 30*time.Millisecond
	o.RestartGrace = 200 * time.Millisecond
	o.LagInterval = 200 * time.Millisecond
	var c *Consumer
	a.s.within(callLimit, "NewConsumer", func() {
		var err error
		if c, err = a.m.NewConsumer(topics, o); err != nil {
			c = nil
		}
	})
	if c == nil {
		return
	}
	a.mu.Lock()
	a.consumers = append(a.consumers, c)
	a.mu.Unlock()
	ways := []int{0} // what the channel offers may be received late: beside other ways there is no order to hold anybody to
	if r.IntN(4) > 0 {
		ways = []int{1 + r.IntN(5), 1 + r.IntN(5), 1 + r.IntN(5)}[:1+r.IntN(3)]
	}
	for _, way := range ways {
		seed := r.Uint64()
		a.s.wg.Go(func() { a.read(rand.New(rand.NewPCG(seed, 0)), c, way) })
	}
}

// read reads a consumer in one of the ways until it ends.
func (a *actor) read(r *rand.Rand, c *Consumer, way int) {
	ctx := context.Background()
	hand := &bag{a: a, r: r, c: c}
	defer hand.finish(0)
	switch way {
	case 0:
		for {
			before := testutil.Now()
			m, open := <-c.ConsumeChannel()
			if !open {
				return
			}
			hand.take(before, m)
		}
	case 1, 2:
		for {
			soon, cancel, _ := briefly(r, 100*time.Millisecond)
			before := testutil.Now()
			m, err := c.FetchMessage(soon)
			cancel()
			if errors.Is(err, ErrTerminated) {
				return
			}
			hand.take(before, m)
		}
	case 3:
		for {
			before := testutil.Now()
			for m, err := range c.Messages(ctx) {
				if err == nil {
					hand.take(before, m)
				}
				if r.IntN(10) == 0 { // on with another
					break
				}
				before = testutil.Now()
			}
			if c.Terminated() {
				return
			}
		}
	case 4:
		before := testutil.Now()
		for b, err := range c.Batches(ctx) {
			if err == nil {
				for i := range b.Messages {
					hand.take(before, &b.Messages[i])
				}
				if r.IntN(2) == 0 {
					hand.commit(b.Messages, b.Commit)
				}
			}
			before = testutil.Now()
		}
	default:
		for claim, err := range c.Claims(ctx) {
			if err == nil {
				seed := r.Uint64()
				a.s.wg.Go(func() { a.readClaim(rand.New(rand.NewPCG(seed, 0)), c, claim) })
			}
		}
	}
}

// readClaim lives by one claim.
func (a *actor) readClaim(r *rand.Rand, c *Consumer, claim *Claim) {
	hand := &bag{a: a, r: r, c: c}
	before := testutil.Now()
	last := int64(-1)
	var draining <-chan struct{}
	for m, err := range claim.Messages(context.Background()) {
		if err == nil {
			last = m.Offset
			hand.take(before, m)
			if claim.Partition >= 0 && r.IntN(20) == 0 {
				hand.forget()
				ctx, cancel, d := briefly(r, 300*time.Millisecond)
				a.about(m.Topic, m.Partition, m.Token(), claim.Start, last)
				a.s.within(d, "Progress", func() { err = claim.Progress(ctx, last+1) })
				cancel()
				if err == nil {
					a.finished(m.Topic, m.Partition, m.Token(), claim.Start, last)
				}
			}
		}
		if r.IntN(100) == 0 {
			break
		}
		draining = claim.Draining()
		if isClosed(draining) {
			hand.finish(0)
		}
		before = testutil.Now()
	}
	hand.finish(0)
	if claim.Context().Err() == nil && r.IntN(2) == 0 {
		ctx, cancel, d := briefly(r, 300*time.Millisecond)
		a.s.within(d, "Release", func() { _ = claim.Release(ctx, -1) })
		cancel()
	}
	before = testutil.Now()
	for m, err := range claim.Messages(context.Background()) { // it may go on
		if err == nil {
			hand.take(before, m)
			hand.finish(0)
		}
		before = testutil.Now()
	}
	if context.Cause(claim.Context()) == nil {
		<-claim.Context().Done() // Terminate(false) ends Messages first
	}
}

// bag is what a reader has in hand.
type bag struct {
	a  *actor
	r  *rand.Rand
	c  *Consumer
	ms []*Message
}

func (h *bag) take(before int64, m *Message) {
	if m == nil {
		return
	}
	h.a.handed(before, testutil.Now(), m)
	h.ms = append(h.ms, m)
	h.finish(h.r.IntN(12))
}

// finish finishes messages in any order, in any way, until only so many are left.
func (h *bag) finish(leave int) {
	for len(h.ms) > leave {
		i := h.r.IntN(len(h.ms))
		m := h.ms[i]
		h.ms = slices.Delete(h.ms, i, i+1)
		h.commit([]Message{*m}, func() error {
			switch h.r.IntN(30) {
			case 0:
				ctx, cancel, d := briefly(h.r, 200*time.Millisecond)
				defer cancel()
				var err error
				h.a.s.within(d, "CommitMessages", func() { err = h.c.CommitMessages(ctx, m) })
				if errors.Is(err, ErrCommitPending) || errors.Is(err, context.DeadlineExceeded) {
					err = nil // it is remembered
				}
				return err
			case 1:
				return m.Clone().Commit()
			case 2:
				return errors.Join(m.Commit(), h.c.Commit(m))
			}
			return m.Commit()
		})
	}
}

func (h *bag) forget() { h.ms = nil }

// commit notes what is finished, and surely finished.
func (h *bag) commit(ms []Message, commit func() error) {
	for i := range ms {
		h.a.about(ms[i].Topic, ms[i].Partition, ms[i].Token(), ms[i].Offset, ms[i].Offset)
	}
	if commit() != nil {
		return
	}
	for i := range ms {
		h.a.finished(ms[i].Topic, ms[i].Partition, ms[i].Token(), ms[i].Offset, ms[i].Offset)
	}
}

func (a *actor) handed(before, after int64, m *Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log.Handouts = append(a.log.Handouts, testutil.Handout{
		Place: testutil.Place{Topic: m.Topic, Partition: m.Partition}, Before: before, After: after, Token: m.Token(), First: m.Offset, Last: m.Offset,
	})
}

func (a *actor) about(topic string, partition int32, token, first, last int64) {
	a.note(&a.log.Finishes, topic, partition, token, first, last)
}

func (a *actor) finished(topic string, partition int32, token, first, last int64) {
	a.note(&a.sure, topic, partition, token, first, last)
}

func (a *actor) note(in *[]testutil.Finish, topic string, partition int32, token, first, last int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*in = append(*in, testutil.Finish{
		Place: testutil.Place{Topic: topic, Partition: partition}, At: testutil.Now(), Token: token, First: first, Last: last,
	})
}

// consumer picks one; nil: there is none.
func (a *actor) consumer(r *rand.Rand) *Consumer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.consumers) == 0 {
		return nil
	}
	return a.consumers[r.IntN(len(a.consumers))]
}

func (a *actor) drop(c *Consumer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.consumers = slices.DeleteFunc(a.consumers, func(o *Consumer) bool { return o == c })
}

// mark notes the tokens under which a process was handed anything.
func (a *actor) mark(tokens map[int64]bool) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.log.Handouts {
		tokens[h.Token] = true
	}
}

// equip gives a process its consumers.
func (a *actor) equip(r *rand.Rand) {
	o := ConsumerOptions{FastReclaim: r.IntN(2) == 0, MaxInFlight: []int{0, 20}[r.IntN(2)], StrictOrdering: r.IntN(8) == 0}
	if r.IntN(3) == 0 {
		o.StallTimeout = 500 * time.Millisecond
	}
	if r.IntN(4) == 0 {
		o.MaxBufferedBytes, o.MaxBatchBytes = 1<<20, 1<<20
	}
	switch r.IntN(4) {
	case 0:
		a.consume(r, o, "t", "s")
	case 1:
		a.consume(r, o, "t")
	default:
		a.consume(r, o, "t")
		a.consume(r, o, "s")
	}
	if r.IntN(2) == 0 {
		o.ClaimEntireTopic = true
		a.consume(r, o, "w")
	}
}

// end closes a process.
func (a *actor) end(limit time.Duration) {
	a.s.mu.Lock()
	was := len(a.s.actors)
	a.s.actors = slices.DeleteFunc(a.s.actors, func(o *actor) bool { return o == a })
	mine := len(a.s.actors) < was
	a.s.mu.Unlock()
	if !mine {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	a.s.within(limit, "Marshaler.Close", func() {
		if a.m.Close(ctx) != nil {
			a.mark(a.s.excused)
		}
	})
}

// act makes one random call.
func (s *storm) act(r *rand.Rand) {
	a := s.actor(r)
	if a == nil {
		return
	}
	m, c := a.m, a.consumer(r)
	topic, partition := []string{"t", "s", "w", "h"}[r.IntN(4)], int32(r.IntN(5))
	ctx, cancel, d := briefly(r, 500*time.Millisecond)
	defer cancel()
	switch n := r.IntN(20); {
	case n < 4:
		s.byHand(r, a, ctx, d)
	case n < 8:
		s.ask(r, m, c, topic, int(partition))
	case c == nil:
		s.within(callLimit, "equip", func() { a.equip(r) })
	case n < 10:
		s.within(d, "Seek", func() {
			if _, end, err := s.Offsets("s", partition%4); err == nil {
				_ = c.Seek(ctx, "s", partition%4, r.Int64N(end+1))
			}
		})
	case n == 10:
		s.within(d, "SeekTime", func() { _ = c.SeekTime(ctx, "s", time.Now().Add(-time.Duration(r.IntN(3000))*time.Millisecond)) })
	case n == 11:
		s.within(d, "Flush", func() { _ = c.Flush(ctx) })
	case n < 15:
		s.within(0, "Pause", func() { c.Pause(topic, partition) })
		if r.IntN(3) == 0 {
			s.within(0, "Pause", func() { c.Pause(topic) })
		}
		pause(ctx, time.Duration(r.IntN(100))*time.Millisecond)
		s.within(0, "Resume", func() { c.Resume(topic, partition); c.Resume(topic) })
	case n == 15:
		a.drop(c)
		release := r.IntN(2) == 0
		if !release {
			a.mark(s.kept) // the next consumer goes on under the same tokens
		}
		s.within(callLimit, "Terminate", func() {
			if !c.Terminate(release) {
				a.mark(s.excused)
			}
		})
		if !release {
			a.mark(s.kept)
		}
	case n == 16:
		a.drop(c)
		s.within(d, "Consumer.Close", func() {
			if c.Close(ctx) != nil {
				a.mark(s.excused)
			}
		})
	case n == 17 && r.IntN(2) == 0:
		a.end([]time.Duration{time.Millisecond, 300 * time.Millisecond, callLimit}[r.IntN(3)])
	default:
		events, stop := context.WithTimeout(ctx, 20*time.Millisecond)
		defer stop()
		s.within(d, "Events", func() {
			for range c.Events(events) {
				if r.IntN(3) == 0 {
					break
				}
			}
		})
	}
}

// byHand claims by hand, and does something with it.
func (s *storm) byHand(r *rand.Rand, a *actor, ctx context.Context, d time.Duration) {
	topic, partition := []string{"h", "h", "h", "s", "t"}[r.IntN(5)], int32(r.IntN(4))
	if r.IntN(8) == 0 {
		partition = lease.WholeTopic
	}
	if r.IntN(3) == 0 {
		s.within(callLimit, "ClaimPartition", func() { a.m.ClaimPartition(topic, int(partition)) })
		s.within(callLimit, "Heartbeat", func() { _ = a.m.Heartbeat(topic, int(partition), 0) })
		s.within(callLimit, "ReleasePartition", func() { _ = a.m.ReleasePartition(topic, int(partition), -1) })
		return
	}
	var claim *Claim
	s.within(d, "Claim", func() { claim, _ = a.m.Claim(ctx, topic, partition) })
	if claim == nil {
		return
	}
	hands, err := a.m.hands()
	if err != nil {
		return
	}
	hand := &bag{a: a, r: r, c: hands}
	before := testutil.Now()
	for m, err := range claim.Messages(ctx) {
		if err == nil {
			hand.take(before, m)
		}
		if r.IntN(50) == 0 {
			break
		}
		before = testutil.Now()
	}
	if r.IntN(2) == 0 {
		hand.finish(0)
	}
	hand.forget()
	s.mu.Lock()
	s.kept[claim.Token()] = true
	s.mu.Unlock()
	soon, cancel, d := briefly(r, 500*time.Millisecond)
	defer cancel()
	s.within(d, "Release", func() { _ = claim.Release(soon, -1) })
	if r.IntN(2) == 0 {
		s.within(d, "Release again", func() { _ = claim.Release(soon, -1) })
	}
}

// ask makes calls that change nothing.
func (s *storm) ask(r *rand.Rand, m *Marshaler, c *Consumer, topic string, partition int) {
	s.within(0, "status", func() {
		_ = m.State().String()
		_ = m.c.State()
		_ = m.Healthy()
		m.PrintState()
		m.IsClaimed(topic, partition)
		m.GetPartitionClaim(topic, -partition)
		m.GetLastPartitionClaim(topic, partition)
		if c != nil {
			_ = c.Stats()
			_ = c.Healthy()
			c.Lag()
			c.GetCurrentLoad()
			c.Position(topic, int32(partition))
			_, _ = c.GetCurrentTopicClaims()
			select {
			case <-c.TopicClaims():
			default:
			}
		}
	})
	switch r.IntN(4) {
	case 0:
		s.within(callLimit, "Partitions", func() { m.Partitions(topic) })
	case 1:
		s.within(callLimit, "Topics", func() { m.Topics() })
	case 2:
		s.within(callLimit, "GetPartitionOffsets", func() { _, _ = m.GetPartitionOffsets(topic, partition) })
	default:
		if c != nil {
			ctx, cancel, d := briefly(r, 300*time.Millisecond)
			s.within(d, "ReadLag", func() { _, _ = c.ReadLag(ctx) })
			cancel()
		}
	}
}

// trouble lets the network of one process fail for a while.
func (s *storm) trouble(r *rand.Rand) {
	f := testutil.Fault{
		Client: []string{"a", "b", "c", "*"}[r.IntN(4)], Do: testutil.Effect(1 + r.IntN(7)), Delay: time.Duration(r.IntN(300)) * time.Millisecond,
		Keys: [][]kmsg.Key{nil, testutil.Reads, testutil.Writes, {kmsg.OffsetCommit, kmsg.OffsetFetch}, {kmsg.ListOffsets, kmsg.Metadata}}[r.IntN(5)],
	}
	if r.IntN(3) == 0 {
		f.Count = 1 + r.IntN(3)
	}
	a := s.Faults().Add(f)
	pause(s.ctx, time.Duration(r.IntN(700))*time.Millisecond)
	a.Remove()
	pause(s.ctx, time.Duration(r.IntN(700))*time.Millisecond)
}

// write writes to all topics, to partitions that came later too.
func (s *storm) write(r *rand.Rand) {
	topic := []string{"t", "s", "w", "h"}[r.IntN(4)]
	place := testutil.Place{Topic: topic, Partition: int32(r.IntN(6))}
	if _, next, err := s.Offsets(place.Topic, place.Partition); err != nil || next < 0 {
		return
	}
	n := 1 + r.IntN(20)
	if first, err := s.Fill(place.Topic, place.Partition, n, 20); err == nil {
		s.mu.Lock()
		s.written[place] = first + int64(n)
		s.mu.Unlock()
	}
	pause(s.ctx, time.Duration(r.IntN(8))*time.Millisecond)
}

func TestRandomCallsOfEverybody(t *testing.T) {
	t.Parallel()
	s := &storm{bench: newBench(t, "t", "s", "w", "h"), seed: *chaosSeed, written: map[testutil.Place]int64{}, excused: map[int64]bool{}, kept: map[int64]bool{}}
	if s.seed == 0 {
		s.seed = rand.Uint64N(1 << 32)
	}
	t.Logf("again: go test -run TestRandomCallsOfEverybody -chaos.seed %d -chaos.time %v .", s.seed, *chaosTime)
	s.ctx, s.stop = context.WithTimeout(context.Background(), *chaosTime)
	defer s.stop()
	loop := func(n uint64, do func(*rand.Rand)) {
		r := s.random(n)
		s.wg.Go(func() {
			for s.ctx.Err() == nil {
				do(r)
			}
		})
	}
	for i, client := range []string{"a", "b", "c"} {
		if a := s.join(client); a != nil {
			a.equip(s.random(uint64(100 + i)))
		}
	}
	var calls sync.WaitGroup
	for n := range uint64(6) {
		r := s.random(n)
		calls.Go(func() {
			for s.ctx.Err() == nil {
				s.act(r)
			}
		})
	}
	calls.Go(func() { // who ends is followed by another, or the same again
		r := s.random(50)
		for s.ctx.Err() == nil {
			s.mu.Lock()
			n := len(s.actors)
			s.mu.Unlock()
			if n < 3 || n < 5 && r.IntN(20) == 0 {
				if a := s.join([]string{"a", "b", "c", "d"}[r.IntN(4)]); a != nil {
					a.equip(r)
				}
			}
			pause(s.ctx, 100*time.Millisecond)
		}
	})
	loop(51, s.trouble)
	loop(52, s.write)
	calls.Go(func() {
		pause(s.ctx, *chaosTime/2)
		s.grow("t", 5)
		s.grow("w", 6)
	})
	<-s.ctx.Done()
	s.Faults().Clear()
	calls.Wait()
	s.mu.Lock()
	last := slices.Clone(s.actors)
	s.mu.Unlock()
	for _, a := range last {
		a.end(callLimit)
	}
	s.wg.Wait() // every reader and listener has ended
	s.judge()
}

// place is a partition under one claim.
type place struct {
	testutil.Place
	token int64
}

// holes are the first offsets that were handed out and not finished: no position can pass them.
func (a *actor) holes() map[place]int64 {
	type one struct {
		place
		offset int64
	}
	done := map[one]bool{}
	for _, f := range a.sure {
		for o := f.First; o <= f.Last; o++ {
			done[one{place{f.Place, f.Token}, o}] = true
		}
	}
	holes := map[place]int64{}
	for _, h := range a.log.Handouts {
		p := place{h.Place, h.Token}
		if hole, there := holes[p]; !done[one{p, h.First}] && (!there || h.First < hole) {
			holes[p] = h.First
		}
	}
	return holes
}

// judge has one more process read what is left, and judges.
func (s *storm) judge() {
	t := s.t
	s.ctx, s.stop = context.WithCancel(context.Background())
	z := s.join("z")
	require.NotNil(t, z)
	for _, topic := range []string{"t", "s", "w", "h"} {
		c, err := z.m.NewConsumer([]string{topic}, ConsumerOptions{ClaimEntireTopic: topic == "w", CommitInterval: 20 * time.Millisecond})
		require.NoError(t, err)
		s.wg.Go(func() {
			hand := &bag{a: z, r: s.random(99), c: c}
			before := testutil.Now()
			for m, err := range c.Messages(context.Background()) {
				if err == nil {
					hand.take(before, m)
					hand.finish(0)
				}
				before = testutil.Now()
			}
		})
		assert.Eventually(t, func() bool {
			for place, next := range s.written {
				if at, _ := c.Position(place.Topic, place.Partition); place.Topic == topic && at < next {
					return false
				}
			}
			return true
		}, 2*patience, 5*time.Millisecond, "%s is read to its end", topic)
	}
	z.end(callLimit)
	s.wg.Wait()

	tried := testutil.Evidence{Produced: map[testutil.Place][]testutil.Span{}}
	for place, next := range s.written {
		tried.Produced[place] = []testutil.Span{{From: 0, To: next}}
	}
	sure := tried
	for _, a := range s.all {
		tried.Logs = append(tried.Logs, a.log)
		certain := a.log
		holes := a.holes()
		certain.Finishes = slices.DeleteFunc(a.sure, func(f testutil.Finish) bool {
			hole, there := holes[place{f.Place, f.Token}]
			// What a consumer has finished behind a hole is forgotten with it, and who goes on under its token may fill the hole.
			return s.excused[f.Token] || s.kept[f.Token] || there && f.Last >= hole
		})
		sure.Logs = append(sure.Logs, certain)
	}
	again := func(f testutil.Finding) bool { return strings.Contains(f.Text, "again, which") }
	verdict := testutil.Judge(tried)
	for _, f := range verdict.Findings {
		var token int64
		if _, rest, ok := strings.Cut(f.Text, ", token "); ok {
			_, _ = fmt.Sscan(rest, &token)
		}
		if !again(f) && !s.kept[token] && (f.Topic != "s" || f.Kind != "lost") {
			assert.Fail(t, "judged", "%v", f)
		}
	}
	linear := tried
	linear.FastReclaim = true
	l := testutil.Linearize(linear)
	assert.NoError(t, l.Err())
	for _, f := range testutil.Judge(sure).Findings {
		if again(f) && f.Topic != "s" {
			assert.Fail(t, "judged", "%v", f)
		}
	}
	looker, err := Dial("looker", s.Addrs(), WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	defer looker.Terminate()
	records := 0
	for r, err := range looker.Log(within(t, patience), testGroup) {
		require.NoError(t, err)
		assert.Empty(t, r.Findings, "%d: %s", r.Offset, r.Text)
		records++
	}
	t.Logf("%d calls, %d processes, %d records, %d claims lost; %s %s", s.calls.Load(), len(s.all), records, len(s.excused), verdict.Line(), l.Line())
}
