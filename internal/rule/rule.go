// Package rule names the rules of the protocol whose breaking the nets must notice: the simulator, the explorer, the fuzz
// of Apply, or a test (package mutants says which).
//
// A normal build has no switch in it: Broken is the constant false and every use of it is removed by the
// compiler. Built with -tags marshalbreak, one rule at a time can be broken (see broken.go).
package rule

// Rule is one rule of PROTOCOL.md that can be broken on purpose.
type Rule uint8

// The rules. Each comment says what happens where the rule is broken.
const (
	None Rule = iota

	// Of the world (package lease).

	FirstJoin      // any record, or a Join with any seq, makes an instance (§5.1)
	JoinAfterEnd   // a Join with seq 1 counts although its author has ended (§5.1)
	Seq            // a record with a seq not above the last counts again (§5.2)
	TTLOnce        // a later Join of an instance changes its ttl, and its author states a shorter one (§5 Join)
	TokenOnce      // each first Join sets the token base again (§3)
	Epoch          // progress counts whatever the epoch of its entry (§5 Heartbeat)
	Holder         // progress counts whoever reports it (§5 Heartbeat)
	ParkedClient   // a parked key is granted to any client (§5 Claim)
	LiveNamesake   // a key is granted that a living namesake holds (§5 Claim)
	AtomicBefore   // each key of an atomic Claim is judged by the state before the record (§5 Claim)
	TopicConflict  // a whole topic is granted beside its partitions, and they beside it (§1 key, §5 Claim)
	Successor      // a Release hands over to anybody it names, one that has ended too (§5 Release)
	ReleaseEpoch   // a Release or Leave counts whatever the epoch of its keys (§5 Release)
	ReleaseLowers  // a Release or Leave sets progress, even to a lower offset (§5 Release)
	CAS            // Evict does not compare the target's renewal (§5 Evict)
	TakeoverClient // a takeover counts whatever the target's client id, and anybody is asked for and taken for a namesake (§5 Evict, §6)
	TakeoverOrder  // a takeover counts also for a renewal after the author's Join, and an answer does not keep its author from it (§5 Evict, §6)
	EndedMemory    // a snapshot forgets the ended instances (§5.6, §7)
	BaseSeen       // a Base counts whatever it has seen (§7)
	BaseForgets    // a Base keeps the memory of the ended (§7)

	// Of who begins (package history).

	BaseWait // who finds no base writes one at once (§7 a, b)

	// Of one instance (package member).

	LogLive     // suspicion grows with the reader's clock, not with log-live time (§6)
	Timestamps  // suspicion is the distance of the broker's timestamps, not log-live time (§6)
	OpenGap     // log-live time counts the time since our newest record read back, which none has closed yet (§6)
	EvictEarly  // a silent instance is evicted at 0.6 of its ttl (§6)
	OwnTTL      // silence is held against the watcher's own ttl, not against that of the instance that is silent (§1 ttl)
	Started     // trust counts from the reading of a renewal, not from the start of its writing (§6)
	Attempt     // trust counts from the last attempt to write a renewal, not from the first (§6)
	NoMargin    // trust lasts a whole ttl, with no margin for clocks that drift (§6)
	Margin      // trust lasts a margin too long, not too short (§6)
	Trust       // hand-out does not look at trust (§6)
	Gate        // hand-out does not look at the world's lease (§6)
	ReleaseGate // hand-out goes on while a Release is under way (§6)
	Reconcile   // a claim that was started is not compared with the world and the wishes again (§6)

	count
)

var names = [...]string{
	None:           "none",
	FirstJoin:      "firstjoin",
	JoinAfterEnd:   "joinafterend",
	Seq:            "seq",
	TTLOnce:        "ttlonce",
	TokenOnce:      "tokenonce",
	Epoch:          "epoch",
	Holder:         "holder",
	ParkedClient:   "parkedclient",
	LiveNamesake:   "livenamesake",
	AtomicBefore:   "atomicbefore",
	TopicConflict:  "topicconflict",
	Successor:      "successor",
	ReleaseEpoch:   "releaseepoch",
	ReleaseLowers:  "releaselowers",
	CAS:            "cas",
	TakeoverClient: "takeoverclient",
	TakeoverOrder:  "takeover",
	EndedMemory:    "endedmemory",
	BaseSeen:       "baseseen",
	BaseForgets:    "baseforgets",
	BaseWait:       "basewait",
	LogLive:        "loglive",
	Timestamps:     "timestamps",
	OpenGap:        "opengap",
	EvictEarly:     "evictearly",
	OwnTTL:         "ownttl",
	Started:        "started",
	Attempt:        "attempt",
	NoMargin:       "nomargin",
	Margin:         "margin",
	Trust:          "trust",
	Gate:           "gate",
	ReleaseGate:    "releasegate",
	Reconcile:      "reconcile",
}

func (r Rule) String() string { return names[r] }

// All lists every rule that can be broken.
func All() []Rule {
	all := make([]Rule, 0, count-1)
	for r := None + 1; r < count; r++ {
		all = append(all, r)
	}
	return all
}

// Parse finds a rule by its name.
func Parse(name string) (Rule, bool) {
	for r, n := range names {
		if n == name {
			return Rule(r), true
		}
	}
	return None, false
}
