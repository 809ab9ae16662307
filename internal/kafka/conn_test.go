package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// damage is what can happen to an answer on its way.
var damage = map[string]func(c net.Conn, frame []byte){
	"cut before":      func(c net.Conn, _ []byte) { c.Close() },
	"cut in the size": func(c net.Conn, f []byte) { c.Write(f[:2]); c.Close() },
	"cut in the middle": func(c net.Conn, f []byte) {
		c.Write(f[:len(f)/2])
		c.Close()
	},
	"negative size": func(c net.Conn, f []byte) { c.Write(append([]byte{0xff, 0xff, 0xff, 0xff}, f[4:]...)) },
	"absurd size":   func(c net.Conn, f []byte) { c.Write(append([]byte{0x7f, 0xff, 0xff, 0xff}, f[4:]...)) },
	"tiny size":     func(c net.Conn, _ []byte) { c.Write([]byte{0, 0, 0, 1, 0}) },
	"other question": func(c net.Conn, f []byte) {
		f = append([]byte(nil), f...)
		f[7]++
		c.Write(f)
	},
	"truncated body": func(c net.Conn, f []byte) {
		f = append([]byte(nil), f[:len(f)-1]...)
		binary.BigEndian.PutUint32(f, uint32(len(f)-4))
		c.Write(f)
	},
	"only a header": func(c net.Conn, f []byte) {
		f = append([]byte(nil), f[:8]...)
		binary.BigEndian.PutUint32(f, 4)
		c.Write(f)
	},
}

// once damages the first answer to key.
func (w *wire) once(key kmsg.Key, how func(net.Conn, []byte)) {
	var done atomic.Bool
	w.treat(func(c net.Conn, k int16, f []byte) bool {
		if k != int16(key) || !done.CompareAndSwap(false, true) {
			return false
		}
		how(c, f)
		return true
	})
}

func TestADamagedAnswerEndsTheConnectionAndTheQuestionIsPutAgain(t *testing.T) {
	w := &wire{}
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.ListenFn(w.Listen))
	c := dial(t, nil, k.ListenAddrs()...)
	for name, how := range damage {
		t.Run(name, func(t *testing.T) {
			before := w.count()
			w.once(kmsg.Metadata, how)
			ts, err := c.Topics(within(t, 5*time.Second), "t")
			require.NoError(t, err)
			require.Len(t, ts["t"].Partitions, 1)
			assert.Equal(t, before+1, w.count(), "a new connection")

			w.once(kmsg.OffsetCommit, how)
			require.NoError(t, c.CommitOffsets(within(t, 5*time.Second), "g", []Committed{{Topic: "t", Offset: 1}}))
			w.once(kmsg.ListOffsets, how)
			require.NoError(t, c.Offsets(within(t, 5*time.Second), []OffsetQuery{{"t", 0, -1}})[0].Err)
		})
	}
}

func TestADamagedAnswerToAnAppendLeavesItUnknown(t *testing.T) {
	w := &wire{}
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.ListenFn(w.Listen))
	c := dial(t, nil, k.ListenAddrs()...)
	p := c.NewProducer("t", 0)
	defer p.Close()
	next := int64(0)
	for name, how := range damage {
		t.Run(name, func(t *testing.T) {
			w.once(kmsg.Produce, how)
			_, err := p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
			require.Error(t, err)
			assert.False(t, Refused(err))
			assert.True(t, Retriable(err), "%v", err)
			first, err := p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
			require.NoError(t, err)
			assert.Equal(t, next+1, first, "it was written all the same, once")
			next = first + 1
		})
	}
}

func TestADamagedAnswerToAFetchEndsTheConnection(t *testing.T) {
	w := &wire{}
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.ListenFn(w.Listen))
	c := dial(t, nil, k.ListenAddrs()...)
	_, err := c.Topics(t.Context(), "t")
	require.NoError(t, err)
	for name, how := range damage {
		t.Run(name, func(t *testing.T) {
			f, err := c.OpenFetch(within(t, 5*time.Second), 0, fetchSettings)
			require.NoError(t, err)
			defer f.Close()
			w.once(kmsg.Fetch, how)
			require.NoError(t, f.Send([]FetchPart{{Topic: "t", LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1}}, 0))
			begin := time.Now()
			_, err = f.Receive()
			require.Error(t, err)
			assert.True(t, Retriable(err), "%v", err)
			assert.True(t, LookAgain(err))
			assert.Less(t, time.Since(begin), time.Second)
			assert.Error(t, f.Send(nil, 0), "it is of no use any more")
		})
	}
}

func TestASilentBrokerCostsTwoSeconds(t *testing.T) {
	w := &wire{}
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.ListenFn(w.Listen))
	c := dial(t, nil, k.ListenAddrs()...)
	_, err := c.Topics(t.Context(), "t")
	require.NoError(t, err)
	p := c.NewProducer("t", 0)
	defer p.Close()
	_, err = p.Append(t.Context(), []Message{{nil, []byte("v")}})
	require.NoError(t, err)
	whole, err := c.OpenFetch(t.Context(), 0, fetchSettings)
	require.NoError(t, err)
	defer whole.Close()
	half, err := c.OpenFetch(t.Context(), 0, fetchSettings)
	require.NoError(t, err)
	defer half.Close()

	var fetches atomic.Int32
	w.treat(func(c net.Conn, key int16, f []byte) bool {
		if kmsg.Key(key) == kmsg.Fetch && fetches.Add(1) == 2 {
			c.Write(f[:len(f)/2])
		}
		return true
	})
	parts := []FetchPart{{Topic: "t", LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1 << 20}}
	require.NoError(t, whole.Send(parts, 0))
	require.NoError(t, half.Send(parts, 0))
	var wg sync.WaitGroup
	silent := func(name string, call func() error) {
		wg.Go(func() {
			begin := time.Now()
			err := call()
			took := time.Since(begin)
			assert.True(t, errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded), "%s: %v", name, err)
			assert.True(t, Retriable(err), name)
			assert.InDelta(t, 2, took.Seconds(), 0.3, name)
		})
	}
	silent("append", func() error { _, err := p.Append(t.Context(), []Message{{nil, []byte("v")}}); return err })
	silent("fetch", func() error { _, err := whole.Receive(); return err })
	silent("half a fetch", func() error { _, err := half.Receive(); return err })
	silent("question", func() error {
		_, err := c.ask(t.Context(), k.ListenAddrs()[0], kmsg.NewPtrMetadataRequest(), 4, 12, 0)
		return err
	})
	wg.Wait()
}

func TestAnEndedContextEndsAQuestionAtOnce(t *testing.T) {
	w := &wire{}
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.ListenFn(w.Listen))
	c := dial(t, nil, k.ListenAddrs()...)
	_, err := c.Topics(t.Context(), "t")
	require.NoError(t, err)
	p := c.NewProducer("t", 0)
	defer p.Close()
	_, err = p.Append(t.Context(), []Message{{nil, []byte("v")}})
	require.NoError(t, err)
	for name, call := range map[string]func(context.Context) error{
		"append":  func(ctx context.Context) error { _, err := p.Append(ctx, []Message{{nil, []byte("v")}}); return err },
		"topics":  func(ctx context.Context) error { _, err := c.Topics(ctx, "t"); return err },
		"offsets": func(ctx context.Context) error { return c.Offsets(ctx, []OffsetQuery{{"t", 0, -1}})[0].Err },
		"commit": func(ctx context.Context) error {
			return c.CommitOffsets(ctx, "g", []Committed{{Topic: "t", Offset: 1}})
		},
		"fetch offsets": func(ctx context.Context) error {
			return c.FetchOffsets(ctx, "g", []Committed{{Topic: "t"}})
		},
		"ensure": func(ctx context.Context) error {
			_, _, err := c.EnsureTopic(ctx, TopicSpec{Name: "t", Partitions: 1}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.treat(func(net.Conn, int16, []byte) bool { cancel(); return true })
			begin := time.Now()
			err := call(ctx)
			assert.ErrorIs(t, err, context.Canceled)
			assert.Less(t, time.Since(begin), 1500*time.Millisecond)
			w.treat(nil)
			require.NoError(t, call(within(t, 5*time.Second)), "the next one works")
		})
	}
}

func TestTaggedFieldsInAnAnswersHeaderAreSkipped(t *testing.T) {
	b, err := skipTags([]byte{2, 5, 3, 'a', 'b', 'c', 9, 0, 'x'})
	require.NoError(t, err)
	assert.Equal(t, []byte{'x'}, b)
	for _, bad := range [][]byte{{}, {1}, {1, 5}, {1, 5, 3, 'a'}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
		_, err := skipTags(bad)
		assert.ErrorIs(t, err, ErrCorrupt, "%x", bad)
	}
}

func TestABrokerThatIsTooOldIsSaidToBe(t *testing.T) {
	n := &conn{addr: "a:1", versions: map[int16]versions{1: {0, 3}}}
	err := n.pick(kmsg.NewPtrFetchRequest(), 4, 18)
	require.ErrorIs(t, err, ErrUnsupportedVersion)
	assert.False(t, Retriable(err))
	require.NoError(t, n.pick(kmsg.NewPtrFetchRequest(), 2, 18))
	require.ErrorIs(t, n.pick(kmsg.NewPtrProduceRequest(), 0, 18), ErrUnsupportedVersion)
}
