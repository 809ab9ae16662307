package lease

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkCounts counts anew what a world counts as it goes.
func checkCounts(w *World) error {
	var keys, marked, joins int
	var partitions int64
	for t := range w.topics.all() {
		known, leased := 0, 0
		if whole := t.slots.whole(); whole != nil && whole.held() {
			leased++
		}
		for s := range t.slots.partitions() {
			known++
			if s.held() {
				leased++
			}
			if t.slots.at(s.partition) != s {
				return fmt.Errorf("%v is not where it is looked for", s.key())
			}
		}
		if int(t.known) != known || int(t.leased) != leased {
			return fmt.Errorf("%s: %d known, %d leased; there are %d and %d", t.name, t.known, t.leased, known, leased)
		}
		keys += t.keys()
		partitions += int64(t.partitions())
	}
	alive := map[string][]*instance{}
	var versions [256]int32
	for i, in := range slices.Concat(w.present, w.ended) {
		if w.instances[in.ID] != in {
			return fmt.Errorf("%v is not found by its id", in.ID)
		}
		if ended := i >= len(w.present); ended != (in.Status == Ended) {
			return fmt.Errorf("%v is among the wrong ones", in.ID)
		}
		if in.Status == Alive {
			alive[in.Client] = append(alive[in.Client], in)
			versions[in.MaxVersion]++
			joins += in.size
		}
		for n, s := range in.held.slots {
			if s != nil && (s.owner != in || int(s.at) != n || w.topics.find(s.topic.name).find(s.partition) != s) {
				return fmt.Errorf("%v: the place of %v is wrong", in.ID, s.key())
			}
		}
		for _, s := range in.marks {
			if !slices.Contains(w.marks[s], in) {
				return fmt.Errorf("%v has a mark against %v that it has not", in.ID, s.key())
			}
			marked++
		}
	}
	of := 0
	for s, who := range w.marks {
		if len(who) == 0 {
			return fmt.Errorf("%v is marked by nobody", s.key())
		}
		of += len(who)
	}
	switch {
	case keys != w.keys || marked != w.marked || of != marked || joins != w.joins || partitions != w.partitions:
		return fmt.Errorf("%d keys, %d marks, joins of %d, %d partitions; counted: %d, %d (%d), %d, %d",
			w.keys, w.marked, w.joins, w.partitions, keys, marked, of, joins, partitions)
	case versions != w.versions || len(alive) != len(w.clients) || len(w.instances) != len(w.present)+len(w.ended):
		return fmt.Errorf("versions, clients or instances are not those of the present")
	}
	for client, list := range alive {
		if !slices.Equal(list, w.clients[client]) {
			return fmt.Errorf("the instances of %s are others, or out of order", client)
		}
	}
	return nil
}

func TestEveryByteOfATextMovesItsHash(t *testing.T) {
	seen := map[uint64]string{}
	for length := range 20 {
		text := slices.Repeat([]byte{'a'}, length)
		for at := range text {
			for b := range 256 {
				text[at] = byte(b)
				h := hashString(string(text))
				if before, ok := seen[h]; ok {
					require.Equal(t, before, string(text))
				}
				seen[h] = string(text)
			}
			text[at] = 'a'
		}
	}
}

// The digest is a sum, so what is summed must neither lose a bit nor keep the structure of what it was made of.
func TestASumOfHashesKeepsNoStructure(t *testing.T) {
	mixed, finished := map[uint64]bool{mix(tagLease, 0): true}, map[uint64]bool{finish(0): true}
	for i := range 64 {
		mixed[mix(tagLease, 1<<i)] = true
		finished[finish(1<<i)] = true
		for j := range i {
			mixed[mix(tagLease, 1<<i|1<<j)] = true
			finished[finish(1<<i|1<<j)] = true
		}
	}
	assert.Len(t, mixed, 1+64+64*63/2, "each bit counts")
	assert.Len(t, finished, 1+64+64*63/2, "each bit counts")
	rng := rand.New(rand.NewPCG(1, 1))
	ones := 0
	for range 10_000 {
		a := rng.Uint64()
		if rng.IntN(2) == 0 {
			a &= 0xffff
		}
		assert.NotEqual(t, finish(a)+finish(a+3), finish(a+1)+finish(a+2), "%x", a)
		ones += bits.OnesCount64(mix(tagLease, a))
	}
	assert.InDelta(t, 32, float64(ones)/10_000, 0.5, "half of the bits are set")
}

func TestTheDigestShowsWhoHeldAKeyLast(t *testing.T) {
	s := rich(t)
	k := s.w.topics.find("t").find(1)
	require.False(t, k.held())
	before, version := s.w.Digest(), s.w.Version()
	s.w.discount(k)
	k.owner = &instance{Instance: Instance{Client: "another"}}
	s.w.count(k)
	assert.NotEqual(t, before, s.w.Digest())
	assert.Equal(t, version, s.w.Version(), "no plan depends on it")
}

// What partitions of a topic know alike they share, and nothing else.
func TestALifeIsSharedWhereItIsTheSame(t *testing.T) {
	var topic topic
	of := func(id string, before ...string) *life { return topic.live(topicID(id), lives(before...)) }
	first := of("C", "A")
	assert.Same(t, first, of("C", "A"))
	other := of("C", "B")
	assert.Equal(t, []TopicID{topicID("B")}, other.replaced())
	assert.Equal(t, []TopicID{topicID("A")}, first.replaced())
	longer := of("C", "A", "B")
	assert.Equal(t, []TopicID{topicID("A"), topicID("B")}, longer.replaced())
	assert.Same(t, longer, of("C", "A", "B"))
	assert.Empty(t, of("C").replaced())
	assert.Equal(t, topicID("D"), of("D", "A", "B").id)
}

// A copy is right whatever was asked for before: what is numbered is numbered anew.
func TestACopyOfAWorldThatHasMovedOnSinceItWasLastWritten(t *testing.T) {
	s := rich(t)
	s.join("c", "d")
	s.claim("d", "z/1")
	s.w.AppendBinary(nil)
	s.leave("b")
	s.leave("c")
	copied := s.w.Clone()
	require.NoError(t, checkCounts(copied))
	assert.Equal(t, s.w.AppendBinary(nil), copied.AppendBinary(nil))
}
