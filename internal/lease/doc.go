// Package lease is the state that a group agrees on: which instances there are, who holds which key, how far each
// partition is, and how one record of the log changes it. It knows no clock, no goroutine and no broker; the offset of a
// record is its only time. Whoever has applied the same records has the same World, bit for bit.
//
//	Record --> World.Apply --> Events        what the record did, in the order in which it did it
//	              |
//	              +-- Instance, Lease, Owner, Progress, ...      what is so now
//	              +-- Version                                    what a plan depends on has changed
//	              +-- Digest, AppendBinary, ParseWorld, Clone    the world as a value
//
// # Instances
//
//	status    record of its own             becomes   else becomes
//	unknown   Join with seq 1               alive
//	alive     Join, Heartbeat, Claim,       alive     ended, by an Evict that names its newest renewal
//	          Release, Evict, Directive
//	alive     Leave                         ended
//	alive     Leave with keep               parked
//	parked    any: ignored                  parked    ended, by such an Evict (never by a takeover)
//	ended     any: ignored                  ended     unknown, when 65,536 offsets have passed
//
// # Keys
//
// By a record at offset o, whose author is a:
//
//	key is                 record                                    key becomes
//	free                   Claim                                     held by a, epoch o
//	held by a              Claim                                     as it was
//	held by a, epoch e     Release naming e                          free, or held by the successor, epoch o
//	held by a              Leave                                     free; with keep: as it was, its owner parked
//	held by t              Evict of t                                free; takeover: held by a, epoch o
//	held by parked t       Claim, a and t have one client id         held by a, epoch o
//	held by anybody        Seek (no epoch, or the key's)             as it was, epoch o
//	anything               a valid Base                              free, and nothing known of it
//
// A whole topic conflicts with each of its partitions: "free" and "held" above are said of a key and of those that it
// conflicts with. No other record changes a key.
//
// # Progress
//
// The progress of a partition belongs to the partition, not to a lease: it stays when the key is free. It moves up by a
// Heartbeat, Release or Leave of the one who holds the partition (or its topic) under the epoch that the entry names; a Seek
// sets it. An entry with another Kafka topic id than the stored one begins a new life of the topic.
//
// # What is bounded
//
// Everybody who can write to the topic can write anything into it. So Apply believes nothing, allocates in proportion to
// the record, and keeps the world below the limits of limits.go.
package lease
