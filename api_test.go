package marshal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

// What every public method does after Terminate, when its context has ended, and while no broker answers.

// stage is one object of each type. The consumer has a message in hand, which is finished, and one as a batch, which is not; there is nothing
// more to read, and no other claim to be given.
type stage struct {
	cluster *KafkaCluster
	m       *Marshaler
	c       *Consumer
	claim   *Claim // by hand
	msg     *Message
	batch   *Batch
}

func newStage(t *testing.T, b *bench, name string) *stage {
	t.Helper()
	s := readingStage(t, b, name)
	claimed(t, s.c)
	return s
}

// readingStage is one whose consumer still hands out itself.
func readingStage(t *testing.T, b *bench, name string) *stage {
	t.Helper()
	s := &stage{}
	var err error
	s.cluster, err = Dial(name, b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	t.Cleanup(s.cluster.Terminate)
	s.m, err = s.cluster.NewMarshaler(name, "group of "+name)
	require.NoError(t, err)
	s.c = b.consumer(s.m, ConsumerOptions{DrainTimeout: time.Millisecond, CommitInterval: time.Minute}, "read")
	s.msg, err = s.c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	for s.batch, err = range s.c.Batches(within(t, patience)) {
		require.NoError(t, err)
		break
	}
	require.NoError(t, s.msg.Commit())
	s.claim, err = s.m.Claim(within(t, patience), "held", 0)
	require.NoError(t, err)
	return s
}

// newStages makes stages whose clients have names that begin with "s".
func newStages(t *testing.T) (b *bench, open func() *stage) {
	b = newBench(t)
	b.one("read", 2)
	b.one("held", 5)
	b.one("free", 1)
	n := 0
	return b, func() *stage { n++; return newStage(t, b, fmt.Sprint("s", n)) }
}

// method is a public method, and what it does.
type method struct {
	call  func(s *stage, ctx context.Context) any // gives its error, its value, or how many an iterator has yielded
	after any                                     // what it gives after Terminate: that error, that value; errSame
	limit time.Duration                           // of one without a context that may block
	alone bool                                    // it changes what others rely on, so it gets a stage of its own
}

// errSame is for what a method gives after Terminate as it did before.
var errSame = errors.New("the same as before")

func yields[T any](seq iter.Seq2[T, error]) any {
	n := 0
	for range seq {
		n++
	}
	return n
}

func happens(seq iter.Seq[Event]) any {
	for e := range seq {
		if e.Kind == ClaimStarted {
			return e
		}
	}
	return 0
}

func second[T any](_ T, err error) any { return err }

// hasEnded tells whether a channel is closed.
func hasEnded[T any](c <-chan T) any {
	select {
	case _, open := <-c:
		return !open
	default:
		return false
	}
}

// done is for a method that gives nothing.
func done() any { return nil }

// methods are all of them.
var methods = map[string]method{
	"KafkaCluster.Close": {alone: true, call: func(s *stage, ctx context.Context) any { return s.cluster.Close(ctx) }},
	"KafkaCluster.Log": {after: ErrTerminated, call: func(s *stage, ctx context.Context) any {
		var last error
		for _, err := range s.cluster.Log(ctx, s.m.GroupID()) {
			last = err
		}
		return last
	}},
	"KafkaCluster.NewMarshaler": {after: ErrTerminated, limit: joinLimit, call: func(s *stage, _ context.Context) any {
		return second(s.cluster.NewMarshaler("new", "group"))
	}},
	"KafkaCluster.NewMarshalerContext": {after: ErrTerminated, call: func(s *stage, ctx context.Context) any {
		return second(s.cluster.NewMarshalerContext(ctx, "new", "group"))
	}},
	"KafkaCluster.State": {after: 0, call: func(s *stage, _ context.Context) any { return len(s.cluster.State()) }},
	"KafkaCluster.Terminate": {alone: true, limit: callLimit, call: func(s *stage, _ context.Context) any {
		s.cluster.Terminate()
		return done()
	}},
	"KafkaCluster.Terminated": {after: true, call: func(s *stage, _ context.Context) any { return s.cluster.Terminated() }},

	"Marshaler.Claim": {after: ErrTerminated, call: func(s *stage, ctx context.Context) any {
		return second(s.m.Claim(ctx, "free", 0))
	}},
	"Marshaler.ClaimPartition": {after: false, limit: callLimit, call: func(s *stage, _ context.Context) any { return s.m.ClaimPartition("free", 0) }},
	"Marshaler.ClientID":       {after: errSame, call: func(s *stage, _ context.Context) any { return s.m.ClientID() }},
	"Marshaler.Close":          {alone: true, call: func(s *stage, ctx context.Context) any { return s.m.Close(ctx) }},
	"Marshaler.CommitOffsets": {after: ErrTerminated, limit: callLimit, call: func(s *stage, _ context.Context) any {
		return s.m.CommitOffsets("held", 0, 1)
	}},
	"Marshaler.Events": {after: 0, call: func(s *stage, ctx context.Context) any { return happens(s.m.Events(ctx)) }},
	"Marshaler.GetLastPartitionClaim": {after: PartitionClaim{}, call: func(s *stage, _ context.Context) any {
		return s.m.GetLastPartitionClaim("held", 0)
	}},
	"Marshaler.GetPartitionClaim": {after: PartitionClaim{}, call: func(s *stage, _ context.Context) any { return s.m.GetPartitionClaim("held", 0) }},
	"Marshaler.GetPartitionOffsets": {after: ErrTerminated, limit: callLimit, call: func(s *stage, _ context.Context) any {
		return second(s.m.GetPartitionOffsets("held", 0))
	}},
	"Marshaler.GroupID":   {after: errSame, call: func(s *stage, _ context.Context) any { return s.m.GroupID() }},
	"Marshaler.Healthy":   {after: ErrTerminated, call: func(s *stage, _ context.Context) any { return s.m.Healthy() }},
	"Marshaler.Heartbeat": {alone: true, after: ErrTerminated, limit: callLimit, call: func(s *stage, _ context.Context) any { return s.m.Heartbeat("held", 0, 3) }},
	"Marshaler.IsClaimed": {after: false, call: func(s *stage, _ context.Context) any { return s.m.IsClaimed("held", 0) }},
	"Marshaler.NewConsumer": {after: ErrTerminated, limit: callLimit, call: func(s *stage, _ context.Context) any {
		return second(s.m.NewConsumer([]string{"free"}, ConsumerOptions{}))
	}},
	"Marshaler.Partitions": {after: 0, limit: callLimit, call: func(s *stage, _ context.Context) any { return s.m.Partitions("held") }},
	"Marshaler.PrintState": {call: func(s *stage, _ context.Context) any { s.m.PrintState(); return done() }},
	"Marshaler.ReleasePartition": {after: ErrTerminated, limit: callLimit, alone: true, call: func(s *stage, _ context.Context) any {
		return s.m.ReleasePartition("held", 0, 2)
	}},
	"Marshaler.Seek":       {after: ErrTerminated, call: func(s *stage, ctx context.Context) any { return s.m.Seek(ctx, "read", 0, 0) }},
	"Marshaler.State":      {after: 0, call: func(s *stage, _ context.Context) any { return len(s.m.State().Instances) }},
	"Marshaler.Terminate":  {alone: true, limit: callLimit, call: func(s *stage, _ context.Context) any { s.m.Terminate(); return done() }},
	"Marshaler.Terminated": {after: true, call: func(s *stage, _ context.Context) any { return s.m.Terminated() }},
	"Marshaler.Topics":     {after: []string(nil), limit: callLimit, call: func(s *stage, _ context.Context) any { return s.m.Topics() }},

	"Consumer.Batches":        {after: 0, call: func(s *stage, ctx context.Context) any { return yields(s.c.Batches(ctx)) }},
	"Consumer.Claims":         {after: 0, call: func(s *stage, ctx context.Context) any { return yields(s.c.Claims(ctx)) }},
	"Consumer.Close":          {alone: true, call: func(s *stage, ctx context.Context) any { return s.c.Close(ctx) }},
	"Consumer.Commit":         {after: ErrClaimLost, call: func(s *stage, _ context.Context) any { return s.c.Commit(s.msg) }},
	"Consumer.CommitMessages": {alone: true, after: ErrClaimLost, call: func(s *stage, ctx context.Context) any { return s.c.CommitMessages(ctx, &s.batch.Messages[0]) }},
	"Consumer.ConsumeChannel": {after: true, call: func(s *stage, _ context.Context) any { return hasEnded(s.c.ConsumeChannel()) }},
	"Consumer.Events":         {after: 0, call: func(s *stage, ctx context.Context) any { return happens(s.c.Events(ctx)) }},
	"Consumer.FetchMessage":   {after: ErrTerminated, call: func(s *stage, ctx context.Context) any { return second(s.c.FetchMessage(ctx)) }},
	"Consumer.Flush": {alone: true, after: ErrTerminated, call: func(s *stage, ctx context.Context) any {
		_ = s.batch.Commit() // something to flush, unless it is over
		return s.c.Flush(ctx)
	}},
	"Consumer.GetCurrentLag":  {after: int64(0), call: func(s *stage, _ context.Context) any { return s.c.GetCurrentLag() }},
	"Consumer.GetCurrentLoad": {after: 0, call: func(s *stage, _ context.Context) any { return s.c.GetCurrentLoad() }},
	"Consumer.GetCurrentTopicClaims": {after: map[string]bool(nil), call: func(s *stage, _ context.Context) any {
		topics, _ := s.c.GetCurrentTopicClaims()
		return topics
	}},
	"Consumer.Healthy":  {after: ErrTerminated, call: func(s *stage, _ context.Context) any { return s.c.Healthy() }},
	"Consumer.Lag":      {after: int64(0), call: func(s *stage, _ context.Context) any { return s.c.Lag() }},
	"Consumer.Messages": {after: 0, call: func(s *stage, ctx context.Context) any { return yields(s.c.Messages(ctx)) }},
	"Consumer.Options":  {after: errSame, call: func(s *stage, _ context.Context) any { return s.c.Options() }},
	"Consumer.Pause":    {call: func(s *stage, _ context.Context) any { s.c.Pause("read", 7); return done() }},
	"Consumer.Position": {after: false, call: func(s *stage, _ context.Context) any {
		_, held := s.c.Position("read", 0)
		return held
	}},
	"Consumer.PrintState":  {call: func(s *stage, _ context.Context) any { s.c.PrintState(); return done() }},
	"Consumer.ReadLag":     {after: ErrTerminated, call: func(s *stage, ctx context.Context) any { return second(s.c.ReadLag(ctx)) }},
	"Consumer.ReadMessage": {after: ErrTerminated, call: func(s *stage, ctx context.Context) any { return second(s.c.ReadMessage(ctx)) }},
	"Consumer.Resume":      {call: func(s *stage, _ context.Context) any { s.c.Resume("read", 7); return done() }},
	"Consumer.Seek":        {after: ErrTerminated, call: func(s *stage, ctx context.Context) any { return s.c.Seek(ctx, "read", 0, 0) }},
	"Consumer.SeekTime":    {after: ErrTerminated, call: func(s *stage, ctx context.Context) any { return s.c.SeekTime(ctx, "read", time.Time{}) }},
	"Consumer.Stats":       {after: 0, call: func(s *stage, _ context.Context) any { return len(s.c.Stats().Partitions) }},
	"Consumer.Terminate":   {after: true, alone: true, limit: callLimit, call: func(s *stage, _ context.Context) any { return s.c.Terminate(true) }},
	"Consumer.Terminated":  {after: true, call: func(s *stage, _ context.Context) any { return s.c.Terminated() }},
	"Consumer.TopicClaims": {after: true, call: func(s *stage, _ context.Context) any { return hasEnded(s.c.TopicClaims()) }},

	"Claim.Context":  {after: ErrClaimLost, call: func(s *stage, _ context.Context) any { return context.Cause(s.claim.Context()) }},
	"Claim.Draining": {after: true, call: func(s *stage, _ context.Context) any { return isClosed(s.claim.Draining()) }},
	"Claim.Messages": {after: 0, call: func(s *stage, ctx context.Context) any { return yields(s.claim.Messages(ctx)) }},
	"Claim.Progress": {alone: true, after: ErrClaimLost, call: func(s *stage, ctx context.Context) any { return s.claim.Progress(ctx, 3) }},
	"Claim.Release":  {after: ErrClaimLost, alone: true, call: func(s *stage, ctx context.Context) any { return s.claim.Release(ctx, -1) }},
	"Claim.Token":    {after: errSame, call: func(s *stage, _ context.Context) any { return s.claim.Token() }},

	"Message.Clone":   {after: errSame, call: func(s *stage, _ context.Context) any { return *s.msg.Clone() }},
	"Message.Commit":  {after: ErrClaimLost, call: func(s *stage, _ context.Context) any { return s.msg.Clone().Commit() }},
	"Message.Context": {after: ErrClaimLost, call: func(s *stage, _ context.Context) any { return context.Cause(s.msg.Context()) }},
	"Message.Token":   {after: errSame, call: func(s *stage, _ context.Context) any { return s.msg.Token() }},
	"Batch.Commit":    {after: ErrClaimLost, call: func(s *stage, _ context.Context) any { return s.batch.Commit() }},
	"Batch.Context":   {after: ErrClaimLost, call: func(s *stage, _ context.Context) any { return context.Cause(s.batch.Context()) }},
	"Batch.Partition": {after: errSame, call: func(s *stage, _ context.Context) any { return s.batch.Partition() }},
	"Batch.Token":     {after: errSame, call: func(s *stage, _ context.Context) any { return s.batch.Token() }},
	"Batch.Topic":     {after: errSame, call: func(s *stage, _ context.Context) any { return s.batch.Topic() }},
}

var publicTypes = []any{&KafkaCluster{}, &Marshaler{}, &Consumer{}, &Claim{}, &Message{}, &Batch{}}

// takesContext lists the public methods, and tells of each whether it takes a context.
func takesContext() map[string]bool {
	takes := map[string]bool{}
	for _, of := range publicTypes {
		v := reflect.TypeOf(of)
		for m := range v.Methods() {
			takes[v.Elem().Name()+"."+m.Name] = m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]()
		}
	}
	return takes
}

func TestThePublicMethodsAreAllInTheTable(t *testing.T) {
	takes := takesContext()
	for name, m := range methods {
		if assert.Contains(t, takes, name) && takes[name] {
			assert.Zero(t, m.limit, "%s has a context", name)
		}
	}
	for name := range takes {
		assert.Contains(t, methods, name)
	}
}

// bounds name the limits in the table that a test prints.
var bounds = map[time.Duration]string{0: "does not block", callLimit: "10s"}

// bound is how much longer than its limit a call may take: nothing but the load of the machine.
const bound = 4 * time.Second

// answer is what a call gives, and fails where it does not within limit and bound.
func answer(t *testing.T, name string, limit time.Duration, call func() any) (got any, ok bool) {
	t.Helper()
	answers := make(chan any, 1)
	var wg sync.WaitGroup
	wg.Go(func() { answers <- call() })
	select {
	case got = <-answers:
		return got, true
	case <-time.After(limit + bound):
		return nil, assert.Fail(t, "no answer", "%s within %v", name, limit+bound)
	}
}

// quickest is how long something takes that nothing else of the machine holds up.
func quickest(call func()) time.Duration {
	best := time.Hour
	for range 20 {
		begin := time.Now()
		call()
		if best = min(best, time.Since(begin)); best < time.Millisecond {
			break
		}
	}
	return best
}

func TestC110AfterTerminateEachCallSaysSoAtOnce(t *testing.T) {
	t.Parallel()
	everything := []string{"KafkaCluster", "Marshaler", "Consumer", "Claim", "Message", "Batch"}
	for _, end := range []struct {
		name string
		by   func(*stage)
		of   []string // what is over then
		lost error    // of a message in hand
	}{
		{"KafkaCluster", func(s *stage) { s.cluster.Terminate() }, everything, ErrClaimLost},
		{"Marshaler", func(s *stage) { s.m.Terminate() }, everything[1:], ErrClaimLost},
		{"Consumer, with release", func(s *stage) { s.c.Terminate(true) }, []string{"Consumer", "Message", "Batch"}, ErrClaimLost},
		{"Consumer, without", func(s *stage) { s.c.Terminate(false) }, []string{"Consumer", "Message", "Batch"}, ErrTerminated},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			_, open := newStages(t)
			s := open()
			before := map[string]any{}
			for name, m := range methods {
				if m.after == errSame {
					before[name] = m.call(s, context.Background())
				}
			}
			end.by(s)
			for _, of := range end.of {
				for name, m := range methods {
					if !strings.HasPrefix(name, of+".") {
						continue
					}
					got, ok := answer(t, name, 0, func() any { return m.call(s, context.Background()) })
					assert.Less(t, quickest(func() { m.call(s, context.Background()) }), 10*time.Millisecond, name)
					err, isError := got.(error)
					switch want := m.after; {
					case !ok:
					case want == errSame:
						assert.Equal(t, before[name], got, name)
					case want == ErrClaimLost:
						require.True(t, isError, "%s gives %v", name, got)
						assert.ErrorIs(t, err, end.lost, name)
					case want == ErrTerminated:
						require.True(t, isError, "%s gives %v", name, got)
						assert.ErrorIs(t, err, ErrTerminated, name)
					default:
						assert.Equal(t, want, got, name)
					}
				}
			}
		})
	}
}

// endsWith checks what a call gives whose context has ended.
func endsWith(t *testing.T, name string, got any, want error) {
	t.Helper()
	if err, isError := got.(error); isError {
		assert.ErrorIs(t, err, want, name)
		return
	}
	assert.Equal(t, 0, got, "%s yields nothing and ends without an error", name)
}

func TestACallWhoseContextHasEndedReturnsAtOnce(t *testing.T) {
	t.Parallel()
	_, open := newStages(t)
	shared := open()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for name, takes := range takesContext() {
		m := methods[name]
		if !takes {
			continue
		}
		s := shared
		if m.alone {
			s = open()
		}
		if got, ok := answer(t, name, 0, func() any { return m.call(s, over) }); ok {
			endsWith(t, name, got, context.Canceled)
		}
	}
}

func TestNoCallOutlivesItsContextOrItsLimitWhileNoBrokerAnswers(t *testing.T) {
	t.Parallel()
	for _, effect := range []testutil.Effect{testutil.Cut, testutil.Drop} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			b, open := newStages(t)
			shared := open()
			stages := map[string]*stage{}
			for name, m := range methods {
				stages[name] = shared
				if m.alone {
					stages[name] = open()
				}
			}
			fault := b.Faults().Add(testutil.Fault{Client: "s*", Do: effect})
			defer fault.Remove()
			var wg sync.WaitGroup
			var mu sync.Mutex
			var table []string // with -v: call, its documented bound, how long it took
			note := func(name, bound string, begin time.Time) {
				mu.Lock()
				defer mu.Unlock()
				table = append(table, fmt.Sprintf("| %s | %s | %v |", name, bound, time.Since(begin).Round(100*time.Microsecond)))
			}
			for name, takes := range takesContext() {
				m, s := methods[name], stages[name]
				switch {
				case takes:
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
						defer cancel()
						defer note(name, "its context, 300ms here", time.Now())
						if got, ok := answer(t, name, 300*time.Millisecond, func() any { return m.call(s, ctx) }); ok {
							endsWith(t, name, got, context.DeadlineExceeded)
						}
					})
				case m.limit <= callLimit: // the limit of NewMarshaler is 40 s; what it does with it is what NewMarshalerContext does
					wg.Go(func() {
						defer note(name, bounds[m.limit], time.Now())
						got, ok := answer(t, name, m.limit, func() any { return m.call(s, nil) })
						if err, isError := got.(error); ok && isError && m.limit > 0 {
							assert.ErrorIs(t, err, context.DeadlineExceeded, name)
						}
					})
				}
			}
			wg.Wait()
			slices.Sort(table)
			t.Logf("no broker answers (%v), the client's settings as they are by default:\n%s", effect, strings.Join(table, "\n"))
		})
	}
}
