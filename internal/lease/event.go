package lease

// EventKind says what a record did to the world.
type EventKind uint8

// What can happen. Instance is whom it happened to, unless said.
const (
	Renewed    EventKind = iota + 1 // Apply took the record (Instance, Seq) and it renewed its author
	Joined                          // a new instance is there
	Interested                      // a later Join changed its interests
	Left                            // ended by its own Leave
	Parked                          // ended for now; its keys are kept (Leave with keep)
	Evicted                         // Instance was declared dead by By
	Granted                         // Instance holds Key with Epoch (it did not before); By: the parked holder it, or the first conflicting key, came from, or zero
	Held                            // a Claim of a key that Instance holds already: nothing changed, Epoch is the old one
	Refused                         // a Claim of Key was refused: Reason, By is the holder
	Released                        // Instance gave Key (Epoch) up, or lost it by its end or to a conflicting Claim of By: it is free
	HandedOver                      // Key went from By to Instance, with Epoch, by By's Release
	TakenOver                       // Key went from By to Instance, with Epoch, by a takeover
	Progressed                      // progress of Key (always a partition) is Next now; Instance reported it
	Marked                          // (Instance, Key) is marked unfit
	Unmarked                        // and no longer
	Sought                          // Seek: progress of Key is Next, Epoch the new one of the lease that covers it (NoEpoch: free); Instance is the lease's owner or zero. Of a whole topic: one of that key, that stands for all partitions, and one of each partition that has a lease of its own
	Rebased                         // a valid Base: the world is empty
	Announced                       // Instance announces a Snapshot of the world as it was after this record
	Ignored                         // the record, or one entry of it (Key; of an Evict: Instance, the target), changed nothing: Reason
	Newer                           // a joined author wrote in a newer version: who reads it must be upgraded
)

// Reason says why something was refused or ignored.
type Reason uint8

// The reasons.
const (
	NoReason      Reason = iota
	AuthorUnknown        // not joined, and not a Join with seq 1
	AuthorEnded          // the author had ended
	AuthorParked         // the author is parked
	OtherTopic           // a Join written for another incarnation of the coordination topic
	Echo                 // seq not above the last one of its author
	Malformed            // foreign, unreadable, or absurd values
	NotHeld              // the author does not hold the key
	OldEpoch             // it holds it with another epoch
	Behind               // progress below what is stored
	OldTopic             // the entry's topic id is one that was replaced
	HeldByOther          // the key, or a conflicting one, is another's
	AtomicPartner        // another key of the same atomic Claim was refused
	NotSuccessor         // the named successor may not have it
	TargetUnknown        // Evict of nobody we know
	TargetEnded          // Evict of one that has ended
	TargetSelf           // Evict of its own author
	RenewedSince         // Evict names an older renewal than the newest
	NoTakeover           // a condition of takeover does not hold
	BaseNotEmpty         // a Base whose seen is behind world.last, or not before itself
	TooMany              // a limit of the world's size
	OldOffset            // the record's offset is not above the last one applied: another log
)

// Event is one thing that a record did. Which fields are set is told by Kind.
type Event struct {
	Kind     EventKind
	Reason   Reason
	Offset   int64 // of the record
	Seq      uint64
	Instance InstanceID
	By       InstanceID
	Author   InstanceID // of the record
	Record   Kind       // kind of the record
	Key      Key
	Epoch    int64
	Next     int64
}
