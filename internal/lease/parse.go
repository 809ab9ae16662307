package lease

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/kafka-marshal/marshal/internal/rule"
)

// errWorld is what every error of ParseWorld wraps.
var errWorld = errors.New("not the canonical bytes of a world")

// ErrTwoOwners is what an error of ParseWorld wraps where a key is there twice, or held beside one that conflicts with it.
var ErrTwoOwners = errors.New("a key has two owners")

// ParseWorld reads canonical bytes back. It never panics, takes only what AppendBinary writes of a world that can be
// (no key held twice, no whole topic beside a partition of it, nothing newer than the last record, nothing over a
// limit), and allocates in proportion to len(b).
func ParseWorld(b []byte) (*World, error) {
	p := parser{rest: b, w: NewWorld(TopicID{}), former: map[string]*instance{}}
	p.world()
	if p.err == nil && len(p.rest) > 0 {
		p.fail("%d bytes too many", len(p.rest))
	}
	// What was read tells everything but how it was spelled: numbers may be written in more than one way.
	if p.err == nil && !bytes.Equal(b, p.w.AppendBinary(make([]byte, 0, len(b)))) {
		p.fail("not in canonical form")
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.w, nil
}

// parser reads a world. After the first error it reads zeros and counts of zero, so loops end.
type parser struct {
	rest   []byte
	w      *World
	former map[string]*instance // the last owners of free keys, by client id: nothing else is known of them
	err    error
}

func (p *parser) fail(msg string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %w", errWorld, fmt.Errorf(msg, args...))
	}
	p.rest = nil
}

// check fails unless ok.
func (p *parser) check(ok bool, what string) {
	if !ok {
		p.fail("%s", what)
	}
}

func (p *parser) uint() uint64 {
	n, size := binary.Uvarint(p.rest)
	if size <= 0 {
		p.fail("bad number")
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

// int reads a number from 0 to most.
func (p *parser) int(most int64) int64 {
	n := p.uint()
	if n > uint64(most) {
		p.fail("number out of range")
		return 0
	}
	return int64(n)
}

func (p *parser) signed() int64 {
	n, size := binary.Varint(p.rest)
	if size <= 0 {
		p.fail("bad number")
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

// count reads how many things of at least size bytes follow.
func (p *parser) count(size int) int {
	return int(p.int(int64(len(p.rest) / size)))
}

func (p *parser) bytes(n int) []byte {
	if n > len(p.rest) {
		p.fail("cut short")
		return nil
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b
}

func (p *parser) id() (id [16]byte) {
	copy(id[:], p.bytes(len(id)))
	return id
}

func (p *parser) string(most int64) string { return string(p.bytes(int(p.int(most)))) }

func (p *parser) world() {
	w := p.w
	if f := p.bytes(1); p.err == nil && f[0] != format {
		p.fail("format %d", f[0])
	}
	w.topicID = p.id()
	w.last = p.int(math.MaxInt64) - 1
	w.tokenBase = p.int(MaxTokenBase - 1)
	n := p.count(28)
	p.check(n <= MaxInstances, "too many instances")
	for before := int64(-1); n > 0 && p.err == nil; n-- {
		in := p.instance()
		p.check(in.FirstJoin > before, "instances out of order")
		before = in.FirstJoin
	}
	p.check(w.joins <= MaxJoinsSize && w.partitions <= MaxPartitions, "interests over the limit")
	p.ended()
	for n := p.count(5); n > 0 && p.err == nil; n-- {
		p.topic()
	}
}

// offset reads an offset that is not above the last one.
func (p *parser) offset() int64 {
	if p.w.last < 0 {
		p.fail("something known before the first record")
		return 0
	}
	return p.int(p.w.last)
}

func (p *parser) instance() *instance {
	in := &instance{}
	in.ID = p.id()
	in.Client, in.Host = p.string(MaxLabel), p.string(MaxLabel)
	in.TTL = time.Duration(p.int(int64(MaxGrace)))
	in.MaxVersion = uint8(p.int(math.MaxUint8))
	in.Status = Alive
	if p.int(1) == 1 {
		in.Status = IsParked
	}
	in.Seq = p.uint()
	in.FirstJoin, in.Renewed = p.offset(), p.offset()
	in.Load = Load{InFlight: p.signed(), Lag: p.signed()}
	in.Interests = p.interests()
	in.Pinned = p.pinned()
	p.check(!in.ID.IsZero() && p.w.instances[in.ID] == nil, "instance without an id of its own")
	p.check(in.TTL >= MinTTL && (in.TTL <= MaxTTL || in.Status == IsParked), "ttl out of range")
	p.check(in.FirstJoin <= in.Renewed, "renewed before its first join")
	p.check(in.Seq > 0 || rule.Broken(rule.FirstJoin), "seq 0")
	if in.Status == IsParked {
		p.check(len(in.Interests) == 0 && len(in.Pinned) == 0 && in.Load == Load{}, "parked with interests")
	} else {
		in.size = joinSize(in.Client, in.Host, in.Interests, in.Pinned)
		p.check(in.size <= MaxJoinSize, "interests over the limit")
	}
	if p.err != nil {
		return in
	}
	p.w.joins += in.size
	p.w.state(in.Interests, 1)
	in.Interests = p.w.own(in.Interests)
	in.Pinned = p.w.copyKeys(in.Pinned)
	p.w.admit(in)
	p.w.sumInstance(in)
	p.w.sumRenewal(in)
	return in
}

func (p *parser) interests() (interests []Interest) {
	for n := p.count(4); n > 0 && p.err == nil; n-- {
		f := p.int(interestWhole | interestGreedy)
		it := Interest{
			Whole: f&interestWhole != 0, Greedy: f&interestGreedy != 0,
			Max: int32(p.int(math.MaxInt32)), Weight: int32(p.int(math.MaxInt32)),
		}
		for m := p.count(3); m > 0 && p.err == nil; m-- {
			t := TopicInterest{Topic: p.string(MaxTopicName), Partitions: int32(p.int(math.MaxInt32))}
			p.check(t.Topic != "", "topic without a name")
			it.Topics = append(it.Topics, t)
		}
		interests = append(interests, it)
	}
	return interests
}

func (p *parser) pinned() (pinned []Key) {
	for n := p.count(3); n > 0 && p.err == nil; n-- {
		k := Key{Topic: p.string(MaxTopicName), Partition: int32(p.int(math.MaxInt32+1) - 1)}
		p.check(k.valid(), "key without a topic")
		pinned = append(pinned, k)
	}
	return pinned
}

func (p *parser) ended() {
	w := p.w
	for n := p.count(19); n > 0 && p.err == nil; n-- {
		in := &instance{Instance: Instance{ID: p.id(), Client: p.string(MaxLabel), Status: Ended}}
		in.FirstJoin, in.EndedAt = p.offset(), p.offset()
		in.hash = hashID(in.ID)
		p.check(!in.ID.IsZero() && w.instances[in.ID] == nil, "ended instance without an id of its own")
		p.check(in.FirstJoin < in.EndedAt || rule.Broken(rule.FirstJoin), "ended before it joined")
		p.check(w.last-in.EndedAt <= EndedMemory, "ended too long ago")
		if m := len(w.ended); m > 0 {
			p.check(compareEnded(w.ended[m-1], in) < 0, "ended instances out of order")
		}
		if p.err != nil {
			return
		}
		w.instances[in.ID] = in
		w.ended = append(w.ended, in)
		w.sumEnded(in)
	}
}

func (p *parser) topic() {
	name := p.string(MaxTopicName)
	p.check(name != "", "topic without a name")
	n := p.count(3)
	p.check(n > 0, "topic of which nothing is known")
	p.check(p.w.keys+n <= MaxKeys, "too many keys")
	if p.err != nil {
		return
	}
	// A name that comes twice is found by the comparison of the bytes, as is any other wrong order.
	t := p.w.topic(name)
	block := make([]slot, n)
	for i := 0; i < n && p.err == nil; i++ {
		p.slot(t, &block[i])
	}
}

func (p *parser) slot(t *topic, s *slot) {
	w := p.w
	partition := int32(p.int(math.MaxInt32+1) - 1)
	is := p.int(keyFlags)
	if t.find(partition) != nil {
		p.fail("%w: %s/%d is there twice", ErrTwoOwners, t.name, partition)
	}
	p.check(is&(keyHeld|keyOwned|keyProgress) != 0, "key of which nothing is known")
	p.check(is&keyHeld == 0 || is&keyOwned == 0, "key both held and free")
	p.check(is&keyProgress != 0 || is&(keyIdentified|keyReplaced) == 0, "topic id without progress")
	p.check(is&keyIdentified != 0 || is&keyReplaced == 0, "topic id replaced by none")
	p.check(partition != WholeTopic || is&keyProgress == 0, "progress of a whole topic")
	if p.err != nil {
		return
	}
	w.place(s, t, partition)
	switch {
	case is&keyHeld != 0:
		p.lease(s)
	case is&keyOwned != 0:
		s.owner, s.epoch = p.lastOwner(), p.offset()
		w.count(s)
	}
	if is&keyProgress != 0 {
		p.progress(s, is)
	}
	if is&keyMarked != 0 {
		p.marks(s)
	}
}

// instanceAt reads the number of an instance that is alive or parked.
func (p *parser) instanceAt() *instance {
	if len(p.w.present) == 0 {
		p.fail("no such instance")
		return nil
	}
	in := p.w.present[p.int(int64(len(p.w.present)-1))]
	if p.err != nil {
		return nil
	}
	return in
}

func (p *parser) lease(s *slot) {
	owner, epoch := p.instanceAt(), p.offset()
	if p.err != nil {
		return
	}
	p.check(epoch > owner.FirstJoin || rule.Broken(rule.FirstJoin), "lease older than its owner")
	for range s.topic.inTheWay(s.partition) {
		p.fail("%w: %s/%d is held beside a conflicting key", ErrTwoOwners, s.topic.name, s.partition)
	}
	if p.err == nil {
		p.w.assign(s, owner, epoch)
	}
}

func (p *parser) progress(s *slot, is int64) {
	s.next = p.int(math.MaxInt64)
	if is&keyIdentified != 0 {
		s.life = p.life(s.topic, is)
	}
	p.w.restSum += s.progressSum(s.lifeHash())
}

// life reads a topic id and those that it has replaced.
func (p *parser) life(t *topic, is int64) *life {
	id := TopicID(p.id())
	p.check(!id.IsZero(), "empty topic id")
	var before *life
	if is&keyReplaced != 0 {
		n := p.int(MaxReplaced)
		p.check(n > 0, "no replaced topic ids")
		for ; n > 0 && p.err == nil; n-- {
			before = &life{p.id(), before}
			p.check(!before.id.IsZero() && before.id != id && !before.replaces(before.id), "topic id replaced twice")
		}
	}
	return t.live(id, before)
}

// lastOwner reads the client id of an instance that need not be there any more.
func (p *parser) lastOwner() *instance {
	client := p.bytes(int(p.int(MaxLabel)))
	in := p.former[string(client)]
	if in == nil {
		in = &instance{Instance: Instance{Client: string(client), Status: Ended}}
		p.former[in.Client] = in
	}
	return in
}

func (p *parser) marks(s *slot) {
	n := p.count(1)
	p.check(n > 0 && p.w.marked+n <= MaxMarks, "number of marks")
	for before := int64(-1); n > 0 && p.err == nil; n-- {
		in := p.instanceAt()
		if p.err != nil {
			return
		}
		p.check(in.FirstJoin > before, "marks out of order")
		before = in.FirstJoin
		p.w.addMark(in, s, len(p.w.marks[s]))
	}
}
