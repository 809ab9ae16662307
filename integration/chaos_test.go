//go:build integration && chaos

package integration

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/workers"
)

// TestChaos disturbs six worker processes and three real brokers, one fault after another, now and then two at once, and has
// the judge look at what the workers wrote down. MARSHAL_CHAOS_SECONDS is for how long, MARSHAL_CHAOS_SEED what is chosen.
func TestChaos(t *testing.T) {
	on(t, threeBrokers)
	s := open(t)
	s.recreated = true
	seed, err := strconv.ParseUint(os.Getenv("MARSHAL_CHAOS_SEED"), 10, 64)
	require.NoError(t, err)
	c := &chaos{fleet: newFleet(s, seed), former: map[testutil.Place][]testutil.Span{}}
	c.open()
	base := c.vitals(5 * time.Second)
	begun, duration := time.Now(), s.seconds("MARSHAL_CHAOS_SECONDS", 900)
	for time.Since(begun) < duration {
		c.one()
		c.rest(c.between(500*time.Millisecond, 3*time.Second))
	}
	c.rest(10 * time.Second)
	c.compare(base, c.vitals(5*time.Second))
	c.end()
}

type chaos struct {
	*fleet
	parts, cut, txn, life string
	wholes                []string
	transactions          *transactions
	grown                 int32
	lives                 []int64                            // when each life of the topic began that is made anew
	former                map[testutil.Place][]testutil.Span // what was written in those that are over, by lifeOf
	cuts                  []truncation
}

// truncation is the start of a log that was cut off.
type truncation struct {
	place testutil.Place
	below int64
	at    int64
}

const lifePartitions, cutPartitions, txnPartitions, wholePartitions = 4, 4, 4, 3

func (c *chaos) open() {
	c.grown = 8
	c.parts, c.cut = c.topic("parts", c.grown, nil), c.topic("cut", cutPartitions, nil)
	c.txn, c.life = c.topic("txn", txnPartitions, nil), c.topic("life", lifePartitions, nil)
	for i := range 4 {
		c.wholes = append(c.wholes, c.topic(fmt.Sprint("whole", i), wholePartitions, nil))
	}
	topics := []string{c.parts, c.cut, c.txn, c.life}
	add := func(client string, topics []string, change func(*workers.Worker)) {
		s := &slot{client: client, topics: topics, change: func(w *workers.Worker) {
			w.Options.IsolationLevel, w.Options.StallTimeout = sarama.ReadCommitted, 3*time.Second
			change(w)
		}}
		c.slots = append(c.slots, s)
		c.man(s)
	}
	add("fetch", topics, func(w *workers.Worker) { w.Readers = 4 })
	add("channel", topics, func(w *workers.Worker) { w.Read = workers.Channel })
	add("slow", topics, func(w *workers.Worker) { w.Read, w.Pace = workers.Messages, 4*time.Millisecond })
	add("stuck", topics, func(w *workers.Worker) { w.Readers, w.Hang, w.HangEach = 2, 8*time.Second, 40*time.Second })
	for _, client := range []string{"whole-a", "whole-b"} {
		add(client, c.wholes, func(w *workers.Worker) { w.Options.ClaimEntireTopic, w.Read = true, workers.Batches })
	}
	c.lives = []int64{testutil.Now()}
	c.flow(c.parts, 0, c.grown)
	c.flow(c.cut, 0, cutPartitions)
	c.flow(c.life, 0, lifePartitions)
	for _, t := range c.wholes {
		c.flow(t, 0, wholePartitions)
	}
	c.transactions = c.transact()
	begun := testutil.Now()
	c.wait("everything to flow", func() bool { return c.readSince(begun) })
	c.rest(10 * time.Second)
}

// fault is one that may come, as often as its weight says.
type fault struct {
	name   string
	weight int
	do     func()
}

func (c *chaos) faults() []fault {
	broker := func() string { return fmt.Sprint(1 + c.rng.IntN(3)) }
	return []fault{
		{"a worker is killed", 4, func() { c.replace(c.kill) }},
		{"a worker ends by SIGTERM", 3, func() { c.replace(c.term) }},
		{"a worker is frozen", 3, func() { s := c.anyone(); c.freeze(s, s.stop, s.cont, c.between(time.Second, 2*c.ttl)) }},
		{"a worker's network is cut", 3, func() { s := c.anyone(); c.freeze(s, s.p.Cut, s.p.Cut, c.between(time.Second, 2*c.ttl)) }},
		{"a broker is killed", 2, func() {
			b := broker()
			kafkaScript(c.t, "kill", b)
			c.rest(c.between(0, 5*time.Second))
			kafkaScript(c.t, "up", b)
		}},
		{"a broker is frozen", 2, func() {
			b := broker()
			kafkaScript(c.t, "freeze", b)
			c.rest(c.between(time.Second, 15*time.Second))
			kafkaScript(c.t, "thaw", b)
		}},
		{"a broker is restarted", 2, func() { kafkaScript(c.t, "restart", broker()) }},
		{"leaders are moved", 2, c.moveLeaders},
		{"partitions are added", 1, c.grow},
		{"a topic is deleted and made anew", 2, c.anew},
		{"the start of a log is cut", 2, c.truncate},
		{"a broker and a worker are killed", 2, func() {
			b := broker()
			kafkaScript(c.t, "kill", b)
			c.replace(c.kill)
			c.rest(c.between(0, 5*time.Second))
			kafkaScript(c.t, "up", b)
		}},
	}
}

func (c *chaos) one() {
	faults := c.faults()
	sum := 0
	for _, f := range faults {
		sum += f.weight
	}
	at := c.rng.IntN(sum)
	for _, f := range faults {
		if at -= f.weight; at < 0 {
			c.strike(f.name, f.do)
			return
		}
	}
}

// replace ends a worker, and starts its successor after a while.
func (c *chaos) replace(end func(*workers.Process)) {
	s := c.anyone()
	end(s.p)
	c.rest(c.between(0, 3*time.Second))
	c.man(s)
}

// moveLeaders has the leaders of a topic be other ones.
func (c *chaos) moveLeaders() {
	topic := []string{c.parts, c.cut, c.txn, c.wholes[0]}[c.rng.IntN(4)]
	n := c.partitions(topic)
	assignment, partitions := make([][]int32, n), make([]int32, n)
	for p := range assignment {
		partitions[p] = int32(p)
		for _, r := range c.rng.Perm(3) {
			assignment[p] = append(assignment[p], int32(r+1))
		}
	}
	c.persist("reassigning "+topic, func() error { return c.admin.AlterPartitionReassignments(topic, assignment) })
	c.persist("electing leaders of "+topic, func() error {
		results, err := c.admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{topic: partitions})
		for _, of := range results {
			for _, r := range of {
				if err == nil && r.ErrorCode != sarama.ErrNoError && r.ErrorCode != sarama.ErrElectionNotNeeded {
					err = r.ErrorCode
				}
			}
		}
		return err
	})
}

// persist tries until it works: brokers may have been disturbed a moment ago.
func (c *chaos) persist(what string, try func() error) {
	c.t.Helper()
	var err error
	c.poll(200*time.Millisecond, what, func() bool {
		if err = try(); err != nil {
			c.t.Logf("%s: %v", what, err)
		}
		return err == nil
	})
}

// grow adds two partitions, up to 20.
func (c *chaos) grow() {
	if c.grown >= 20 {
		return
	}
	from := c.grown
	c.grown += 2
	c.persist("adding partitions", func() error {
		err := c.admin.CreatePartitions(c.parts, c.grown, nil, false)
		if c.partitions(c.parts) == int(c.grown) { // an answer may have been lost
			return nil
		}
		return err
	})
	c.wait("leaders", func() bool { return c.partitions(c.parts) == int(c.grown) })
	c.flow(c.parts, from, c.grown)
}

// anew deletes a topic and makes another one of its name.
func (c *chaos) anew() {
	c.ebb(c.life)
	c.bury()
	c.persist("deleting "+c.life, func() error { return c.admin.DeleteTopic(c.life) })
	c.wait("it is gone", func() bool { return c.partitions(c.life) == 0 })
	c.create(c.life, lifePartitions, nil)
	c.lives = append(c.lives, testutil.Now())
	c.flow(c.life, 0, lifePartitions)
}

// lifeOf names a life of the topic that is made anew, for the judge: to him they are topics of their own.
func (c *chaos) lifeOf(n int) string { return fmt.Sprintf("%s#%d", c.life, n) }

// bury puts what was written in the present life aside.
func (c *chaos) bury() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range int32(lifePartitions) {
		place := testutil.Place{Topic: c.life, Partition: p}
		c.former[testutil.Place{Topic: c.lifeOf(len(c.lives) - 1), Partition: p}] = c.produced[place]
		delete(c.produced, place)
	}
}

// truncate cuts the start of a log off, up to somewhere near its end, and so perhaps beyond what was read.
func (c *chaos) truncate() {
	p := int32(c.rng.IntN(cutPartitions))
	place := testutil.Place{Topic: c.cut, Partition: p}
	var below int64
	c.persist("cutting a log", func() error {
		client, err := sarama.NewClient(c.addrs, sarama.NewConfig()) // a new one knows who leads it now
		if err != nil {
			return err
		}
		admin, err := sarama.NewClusterAdminFromClient(client)
		if err != nil {
			return errors.Join(err, client.Close())
		}
		defer admin.Close()
		if below == 0 { // after an answer that was lost the same again
			end, err := client.GetOffset(c.cut, p, sarama.OffsetNewest)
			if err != nil {
				return err
			}
			below = max(end-int64(c.rng.IntN(40)), 1)
		}
		return admin.DeleteRecords(c.cut, map[int32]int64{p: below})
	})
	c.cuts = append(c.cuts, truncation{place, below, testutil.Now()})
}

// compare looks whether the processes need more than at the beginning.
func (c *chaos) compare(base, now map[string]workers.Vitals) {
	const more = 64 << 20
	for _, client := range slices.Sorted(maps.Keys(base)) {
		b, n := base[client], now[client]
		c.t.Logf("%s: goroutines %d -> %d, files %d -> %d, RSS %d -> %d MiB", client, b.Goroutines, n.Goroutines, b.Files, n.Files, b.RSS>>20, n.RSS>>20)
		// Holding other and more partitions needs nothing but buffers; each broker has two connections and their goroutines.
		assert.LessOrEqual(c.t, n.Goroutines, b.Goroutines+20, client)
		assert.LessOrEqual(c.t, n.Files, b.Files+10, client)
		assert.LessOrEqual(c.t, n.RSS, b.RSS+more, client)
	}
}
