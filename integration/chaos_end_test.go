//go:build integration && chaos

package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kafka-marshal/marshal/testutil"
)

// transactions writes to a topic in transactions, of which some are given up.
type transactions struct {
	stop   context.CancelFunc
	wg     sync.WaitGroup
	ended  int // those that came to an end, either way
	broken int // those whose end nobody knows: the broker or the next one has decided
}

func (c *chaos) transact() *transactions {
	ctx, stop := context.WithCancel(context.Background())
	t := &transactions{stop: stop}
	c.t.Cleanup(func() { stop(); t.wg.Wait() })
	seed := c.rng.Uint64()
	t.wg.Go(func() {
		for ctx.Err() == nil {
			if err := c.transactAs(ctx, t, &seed); err != nil {
				t.broken++
				wait := time.NewTimer(200 * time.Millisecond)
				select {
				case <-wait.C:
				case <-ctx.Done():
				}
				wait.Stop()
			}
		}
	})
	return t
}

// transactAs writes with one producer until it fails.
func (c *chaos) transactAs(ctx context.Context, t *transactions, seed *uint64) error {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V3_6_0_0
	cfg.Producer.Idempotent, cfg.Producer.RequiredAcks, cfg.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	cfg.Producer.Transaction.ID, cfg.Producer.Transaction.Timeout = "chaos-"+c.run, 10*time.Second
	cfg.Producer.Return.Successes, cfg.Producer.Partitioner = true, sarama.NewManualPartitioner
	cfg.Net.DialTimeout, cfg.Net.ReadTimeout, cfg.Net.WriteTimeout = 5*time.Second, 5*time.Second, 5*time.Second
	p, err := sarama.NewSyncProducer(c.addrs, cfg)
	if err != nil {
		return err
	}
	defer p.Close()
	each := time.NewTicker(pace)
	defer each.Stop()
	for {
		select {
		case <-each.C:
		case <-ctx.Done():
			return nil
		}
		if err := p.BeginTxn(); err != nil {
			return err
		}
		var messages []*sarama.ProducerMessage
		for i := range int32(txnPartitions) {
			messages = append(messages, &sarama.ProducerMessage{Topic: c.txn, Partition: i, Value: sarama.StringEncoder("in a transaction")})
		}
		if err := p.SendMessages(messages); err != nil {
			return errors.Join(err, p.AbortTxn())
		}
		end := p.CommitTxn
		if *seed = *seed*6364136223846793005 + 1442695040888963407; *seed>>62 == 0 {
			end = p.AbortTxn
		}
		if err := end(); err != nil {
			return err
		}
		t.ended++
	}
}

// committed asks another client what of the transactions there is to read.
func (c *chaos) committed() map[testutil.Place][]testutil.Span {
	c.t.Helper()
	ends := map[int32]int64{}
	client, err := sarama.NewClient(c.addrs, sarama.NewConfig())
	require.NoError(c.t, err)
	defer client.Close()
	from := map[int32]kgo.Offset{}
	for p := range int32(txnPartitions) {
		ends[p], err = client.GetOffset(c.txn, p, sarama.OffsetNewest)
		require.NoError(c.t, err)
		from[p] = kgo.NewOffset().At(0)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(c.addrs...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.txn: from}))
	require.NoError(c.t, err)
	defer reader.Close()
	produced := map[testutil.Place][]testutil.Span{}
	ctx := c.within(patience)
	for len(ends) > 0 {
		fetches := reader.PollFetches(ctx)
		require.NoError(c.t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				place := testutil.Place{Topic: c.txn, Partition: r.Partition}
				produced[place] = append(produced[place], testutil.Span{From: r.Offset, To: r.Offset + 1})
			}
			if r.Offset+1 >= ends[r.Partition] { // the last is the mark of a transaction's end
				delete(ends, r.Partition)
			}
		})
	}
	return produced
}

// end has everything read, and judges.
func (c *chaos) end() {
	c.transactions.stop()
	c.transactions.wg.Wait()
	c.t.Logf("transactions: %d ended, %d broken", c.transactions.ended, c.transactions.broken)
	for _, topic := range append([]string{c.parts, c.cut, c.life}, c.wholes...) {
		c.ebb(topic)
	}
	c.rest(12 * time.Second) // what a producer left open is given up
	for place, spans := range c.committed() {
		for _, s := range spans {
			c.wrote(place, s.From, s.To)
		}
	}
	c.finish()
	c.bury()
	maps.Copy(c.produced, c.former)
	logs, err := testutil.ReadHandoutLogs(c.dir)
	require.NoError(c.t, err)
	c.nameLives(logs)
	removed := c.remove(&logs)
	v := testutil.Judge(testutil.Evidence{Logs: logs, Produced: c.produced, CommitWithin: 30 * time.Second})
	causes := map[testutil.Cause]int64{}
	for _, d := range v.Repeats {
		causes[d.Cause] += d.Offsets.To - d.Offsets.From
	}
	c.report()
	c.t.Logf("judge: %s", v.Line())
	assert.NoError(c.t, v.Err())
	fmt.Printf("chaos: lost=%d overlaps=%d regressions=%d duplicates=%d (killed %d, frozen or cut off %d, unfinished %d, above one %d) delivered=%d removed=%d\n",
		v.Lost, v.Overlaps, v.Regressions, v.Duplicates, causes[testutil.AfterKill], causes[testutil.AfterFreeze], causes[testutil.NotFinished], causes[testutil.AboveOne], v.Delivered, removed)
}

// nameLives gives each life of the topic that was made anew a name of its own. A token belongs to the life in which it first had a
// message.
func (c *chaos) nameLives(logs []testutil.ProcessLog) {
	first := map[int64]int64{}
	for i := range logs {
		for _, h := range logs[i].Handouts {
			if at, ok := first[h.Token]; h.Topic == c.life && (!ok || h.After < at) {
				first[h.Token] = h.After
			}
		}
	}
	name := func(token int64) string {
		n := 0
		for n+1 < len(c.lives) && c.lives[n+1] <= first[token] {
			n++
		}
		return c.lifeOf(n)
	}
	for i := range logs {
		for k := range logs[i].Handouts {
			if h := &logs[i].Handouts[k]; h.Topic == c.life {
				h.Topic = name(h.Token)
			}
		}
		for k := range logs[i].Finishes {
			if h := &logs[i].Finishes[k]; h.Topic == c.life {
				h.Topic = name(h.Token)
			}
		}
	}
}

// remove takes what a deletion or a cut has removed before it was handed out from what there was to read, and counts it; and what was
// in hand then counts as finished.
func (c *chaos) remove(logs *[]testutil.ProcessLog) (n int64) {
	handed := map[testutil.Place]map[int64]bool{}
	for i := range *logs {
		for _, h := range (*logs)[i].Handouts {
			if handed[h.Place] == nil {
				handed[h.Place] = map[int64]bool{}
			}
			for o := h.First; o <= h.Last; o++ {
				handed[h.Place][o] = true
			}
		}
	}
	excuse := testutil.ProcessLog{Process: "administrator"}
	drop := func(p testutil.Place, below, at int64) {
		var kept []testutil.Span
		for _, s := range c.produced[p] {
			for o := s.From; o < s.To; o++ {
				if o < below && !handed[p][o] {
					n++
				} else if k := len(kept); k > 0 && kept[k-1].To == o {
					kept[k-1].To++
				} else {
					kept = append(kept, testutil.Span{From: o, To: o + 1})
				}
			}
		}
		c.produced[p] = kept
		excuse.Finishes = append(excuse.Finishes, testutil.Finish{Place: p, At: at, Last: below - 1})
	}
	for _, t := range c.cuts {
		drop(t.place, t.below, t.at)
	}
	for i, at := range c.lives[1:] {
		for p := range int32(lifePartitions) {
			drop(testutil.Place{Topic: c.lifeOf(i), Partition: p}, math.MaxInt32, at)
		}
	}
	*logs = append(*logs, excuse)
	return n
}
