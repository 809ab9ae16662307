package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// Table counts how often each thing occurred. What never occurred in a long run is a hole in the simulation, so every
// row is there from the start and a zero is seen.
type Table struct {
	Count [rows]int64
}

// Add adds another table's counts.
func (t *Table) Add(o *Table) {
	for i := range t.Count {
		t.Count[i] += o.Count[i]
	}
}

// Zeros lists the rows that never occurred.
func (t *Table) Zeros() []string {
	var zeros []string
	for i, n := range t.Count {
		if n == 0 {
			zeros = append(zeros, rowName(i))
		}
	}
	return zeros
}

// Print writes the table, one row a line; zeros stand out.
func (t *Table) Print(w io.Writer) error {
	for i, n := range t.Count {
		mark := ""
		if n == 0 {
			mark = "   <-- zero"
		}
		if _, err := fmt.Fprintf(w, "%-44s %12d%s\n", rowName(i), n, mark); err != nil {
			return err
		}
	}
	return nil
}

// branch is a branch of the rules of member, policy and history, told from records, actions and notices.
type branch int

// The branches.
const (
	evictBranch branch = iota
	evictManyBranch
	takeoverBranch
	takeoverRefusedBranch
	clientInUseBranch
	claimFirstTurnBranch
	claimLaterTurnBranch
	claimGreedyBranch
	claimManyBranch
	balanceMoveBranch
	forcedMoveBranch
	wholeMoveBranch
	drainingMoveBranch
	releaseToNobodyBranch
	voidRewrittenBranch
	resumeBranch
	parkBranch
	parkExpiredBranch
	reclaimParkedBranch
	unfitBranch
	unfitRetakenBranch
	overflowBranch
	pinnedBranch
	keptBranch
	seekHeldBranch
	seekFreeBranch
	seekWholeBranch
	foreignCommitBranch
	lostClaimBranch
	suspendedTrustBranch
	trustEndedBranch
	trustBackBranch
	wakeRefusedBranch
	deafBranch
	rejoinBranch
	rejoinByBaseBranch
	upgradeBranch
	splitBranch
	rejectedBranch
	abandonBranch
	flushBranch
	drainTimeoutBranch
	drainEndlessBranch
	rolledBranch
	twoAnnouncedBranch
	twoWrittenBranch
	forgottenBranch
	ghostBranch
	ghostGoneBranch
	snapshotStartBranch
	snapshotCheckedBranch
	originStartBranch
	baseStartBranch
	baseAfterHourBranch
	baseAfterSilenceBranch
	probeAnsweredBranch
	hashDiffersBranch
	recheckSameBranch
	recheckOtherBranch
	rewoundBranch
	offStartBranch
	worldDroppedBranch
	exceptNamesakeBranch
	branches
)

var branchNames = [branches]string{
	evictBranch: "evict", evictManyBranch: "evict of several at once", takeoverBranch: "takeover by a namesake",
	takeoverRefusedBranch: "takeover refused", clientInUseBranch: "client id in use reported",
	claimFirstTurnBranch: "claim by the first in turn", claimLaterTurnBranch: "claim by a later turn", claimGreedyBranch: "greedy claim",
	claimManyBranch: "claim of several keys", balanceMoveBranch: "balance move", forcedMoveBranch: "forced move", wholeMoveBranch: "move of a whole topic",
	drainingMoveBranch: "hand-over by a leaver", releaseToNobodyBranch: "release without successor", voidRewrittenBranch: "void record written anew",
	resumeBranch: "drain came to nothing, resumed", parkBranch: "parked", parkExpiredBranch: "parked until evicted", reclaimParkedBranch: "parked keys reclaimed",
	unfitBranch: "unfit: given up", unfitRetakenBranch: "unfit: taken again by the marked", overflowBranch: "over the maximum", pinnedBranch: "pinned key held", keptBranch: "kept key held unread",
	seekHeldBranch: "seek of a held key", seekFreeBranch: "seek of a free key", seekWholeBranch: "seek under a whole topic", foreignCommitBranch: "seek to a foreign commit",
	lostClaimBranch: "claim lost", suspendedTrustBranch: "suspension ends trust", trustEndedBranch: "trust ended under a claim", trustBackBranch: "trust came back, claim kept",
	wakeRefusedBranch: "hand-out refused at wake-up", deafBranch: "deaf: reopened", rejoinBranch: "rejoined after eviction", rejoinByBaseBranch: "rejoined after a base", upgradeBranch: "upgrade needed",
	splitBranch: "record split", rejectedBranch: "heartbeat too large", abandonBranch: "leave abandoned", flushBranch: "flush", drainTimeoutBranch: "drain timed out", drainEndlessBranch: "drain without end cut off", rolledBranch: "rolling restart of all",
	twoAnnouncedBranch: "two snapshots announced at once", twoWrittenBranch: "two snapshots written at once", forgottenBranch: "record of a forgotten instance",
	ghostBranch: "forgotten instance there by its old join", ghostGoneBranch: "and evicted again",
	snapshotStartBranch: "start from a snapshot", snapshotCheckedBranch: "snapshot checked by others", originStartBranch: "start from offset 0", baseStartBranch: "start from a base",
	baseAfterHourBranch: "base by a (an hour old log)", baseAfterSilenceBranch: "base by b (silence)", probeAnsweredBranch: "probe answered by a snapshot",
	hashDiffersBranch: "another hash met", recheckSameBranch: "second reading: the same", recheckOtherBranch: "second reading: another", rewoundBranch: "offset went back", offStartBranch: "fell off the log's start",
	worldDroppedBranch: "world dropped", exceptNamesakeBranch: "overlap: exception 1 (namesake)",
}

// lengthening of the table: faults, branches, event kinds, reasons.
const (
	faultRows  = 0
	branchRows = faultRows + int(faultKinds)
	eventRows  = branchRows + int(branches)
	reasonRows = eventRows + int(lease.Newer)
	rows       = reasonRows + len(reasonNames)
)

// reasonNames names the reasons that a record can be refused or ignored for. AuthorForgotten is reserved: no world says it. TooMany is
// beyond what a simulation of some seconds reaches (thousands of instances): the tests of lease have it.
var reasonNames = [...]string{
	"author unknown", "author ended", "author parked", "other topic", "echo", "malformed", "not held", "old epoch", "behind",
	"old topic", "held by other", "atomic partner", "not successor", "target unknown", "target ended", "target self",
	"renewed since", "no takeover", "base not empty",
}

var eventNames = [...]string{
	"renewed", "joined", "interested", "left", "parked", "evicted", "granted", "held", "refused", "released", "handed over", "taken over",
	"progressed", "marked", "unmarked", "sought", "rebased", "announced", "ignored", "newer",
}

func rowName(i int) string {
	switch {
	case i < branchRows:
		return "fault: " + faultNames[i]
	case i < eventRows:
		return "branch: " + branchNames[i-branchRows]
	case i < reasonRows:
		return "event: " + eventNames[i-eventRows]
	default:
		return "reason: " + reasonNames[i-reasonRows]
	}
}

func (t *Table) fault(k faultKind) { t.Count[faultRows+int(k)]++ }
func (t *Table) branch(b branch)   { t.Count[branchRows+int(b)]++ }

func (t *Table) event(e *lease.Event) {
	if k := int(e.Kind) - 1; k >= 0 && k < len(eventNames) {
		t.Count[eventRows+k]++
	}
	if r := int(e.Reason) - 1; r >= 0 && r < len(reasonNames) {
		t.Count[reasonRows+r]++
	}
}

// Standstill gathers how long keys stood still.
type Standstill []int64 // milliseconds, the longest of each key of each seed

// Quantile gives the q-th quantile.
func (s Standstill) Quantile(q float64) int64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Clone(s)
	slices.Sort(sorted)
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// eventString is one event as the trace prints it.
func eventString(e *lease.Event) string {
	var b strings.Builder
	b.WriteString(eventNames[e.Kind-1])
	if e.Reason != lease.NoReason && int(e.Reason) <= len(reasonNames) {
		fmt.Fprintf(&b, " (%s)", reasonNames[e.Reason-1])
	}
	if e.Key.Topic != "" {
		fmt.Fprintf(&b, " %s", keyString(e.Key))
	}
	switch e.Kind {
	case lease.Granted, lease.HandedOver, lease.TakenOver, lease.Released, lease.Held:
		fmt.Fprintf(&b, " e%d", e.Epoch)
	case lease.Progressed, lease.Sought:
		fmt.Fprintf(&b, " -> %d", e.Next)
	}
	return b.String()
}

func keyString(k lease.Key) string {
	if k.Partition == lease.WholeTopic {
		return k.Topic + "/*"
	}
	return fmt.Sprintf("%s/%d", k.Topic, k.Partition)
}
