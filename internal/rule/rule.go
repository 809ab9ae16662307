// Package rule names the rules of the protocol whose breaking the simulator must notice.
//
// A normal build has no switch in it: Broken is the constant false and every use of it is removed by the
// compiler. Built with -tags marshalbreak, one rule at a time can be broken (see broken.go).
package rule

// Rule is one rule of PROTOCOL.md that a simulation can break on purpose.
type Rule uint8

// The rules. Each comment says what happens where the rule is broken.
const (
	None          Rule = iota
	Epoch              // progress counts whatever the epoch of its entry (§5 Heartbeat)
	CAS                // Evict does not compare the target's renewal (§5 Evict)
	Seq                // a record with a seq not above the last counts again (§5.2)
	LogLive            // suspicion grows with the reader's clock, not with log-live time (§6)
	Started            // trust counts from the reading of a renewal, not from the start of its writing (§6)
	FirstJoin          // any record, or a Join with any seq, makes an instance (§5.1)
	EndedMemory        // a snapshot forgets the ended instances (§5.6, §7)
	BaseSeen           // a Base counts whatever it has seen (§7)
	Successor          // a Release hands over to anybody it names (§5 Release)
	TakeoverOrder      // a takeover counts also for a renewal after the author's Join (§5 Evict)
	ParkedClient       // a parked key is granted to any client (§5 Claim)
	ReleaseGate        // hand-out goes on while a Release is under way (§6)
	Gate               // hand-out does not look at the world's lease (§6)
	Margin             // trust lasts a margin too long, not too short (§6)
	count
)

var names = [...]string{
	None: "none", Epoch: "epoch", CAS: "cas", Seq: "seq", LogLive: "loglive", Started: "started", FirstJoin: "firstjoin",
	EndedMemory: "endedmemory", BaseSeen: "baseseen", Successor: "successor", TakeoverOrder: "takeover",
	ParkedClient: "parkedclient", ReleaseGate: "releasegate", Gate: "gate", Margin: "margin",
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
