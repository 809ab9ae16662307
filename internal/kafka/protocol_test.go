package kafka

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// PROTOCOL.md §3: records are written with acks=all.
func TestAnAppendWaitsForAllReplicas(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	var asked atomic.Int32
	control(k, kmsg.Produce, func(req kmsg.Request) kmsg.Response {
		asked.Add(1)
		assert.EqualValues(t, -1, req.(*kmsg.ProduceRequest).Acks)
		return nil
	})
	p := c.NewProducer("t", 0)
	defer p.Close()
	_, err := p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
	require.NoError(t, err)
	assert.EqualValues(t, 1, asked.Load())
}
