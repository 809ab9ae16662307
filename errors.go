package marshal

import (
	"errors"
	"fmt"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// What a caller decides on. Test with errors.Is.
var (
	// ErrTerminated: the object was terminated (by its own Terminate or Close, or with the Marshaler or KafkaCluster that it
	// belongs to). It never works again; make a new one.
	ErrTerminated = errors.New("marshal: terminated")
	// ErrClaimLost: the claim under which a message was handed out is no longer this process's. What was done with the message
	// may be done again elsewhere; a fencing token (Message.Token) lets a store refuse the older of the two.
	ErrClaimLost = errors.New("marshal: claim lost")
	// ErrCommitPending: the message is remembered as finished, but its partition's position cannot pass it before an earlier
	// message is finished too, so nothing durable can be confirmed yet.
	ErrCommitPending = errors.New("marshal: committed behind an unfinished message")
	// ErrAlreadyConsuming: this Marshaler has a Consumer of that topic already.
	ErrAlreadyConsuming = errors.New("marshal: topic is consumed by this marshaler already")
	// ErrNotClaimed: the key is not claimed by hand in this process, or not any more.
	ErrNotClaimed = errors.New("marshal: not claimed by hand")
	// ErrOwnedByConsumer: a Consumer of this Marshaler has the key; what it does with it is its own business.
	ErrOwnedByConsumer = errors.New("marshal: owned by a consumer of this marshaler")
	// ErrUpgradeNeeded: a member of the group writes a newer version of the protocol than this process can read. It ended its
	// claims; upgrade it.
	ErrUpgradeNeeded = errors.New("marshal: a newer version is in use in this group, upgrade this process")
	// ErrAuthentication: the brokers and this process do not accept each other: wrong credentials, a certificate that is not trusted
	// or has expired, TLS where none is spoken or the other way round. Dial and NewMarshaler give it at once. Later it is in the
	// log, hand-out stops when trust in the lease ends, and all goes on when they accept each other again.
	ErrAuthentication = kafka.ErrAuthentication
	// ErrAuthorization: the user of the connection may not do something; the error's text names the right and on what to grant it.
	// Where it is about a topic or the group it reaches readers in a *PartitionError. All goes on once the right is granted.
	ErrAuthorization = kafka.ErrAuthorization
	// ErrSuspended: this process hands out nothing at the moment, because it has not joined its group (yet, or again) or its lease
	// is not confirmed. It goes on by itself. What Healthy says.
	ErrSuspended = errors.New("marshal: hand-out is suspended")
	// ErrStalled: the application does not finish the messages of a partition. What Healthy says.
	ErrStalled = errors.New("marshal: messages are not finished")
	// ErrNotHandedOut: the message did not come from this library, so it cannot be committed.
	ErrNotHandedOut = errors.New("marshal: message was not handed out by a consumer")
)

// ClaimedError says who holds what was to be claimed, or what conflicts with it.
type ClaimedError struct {
	Topic          string
	Partition      int32 // -1: its whole topic is held
	HolderClient   string
	HolderInstance string
	HolderEpoch    int64
}

func (e *ClaimedError) Error() string {
	return fmt.Sprintf("marshal: %s is claimed by %s (%s) with epoch %d",
		nameOfKey(lease.Key{Topic: e.Topic, Partition: e.Partition}), printable(e.HolderClient), e.HolderInstance, e.HolderEpoch)
}

// PartitionError is a problem of one partition: a batch that cannot be read, an offset out of range, a missing right. The
// other partitions go on, and so does the reader that gets it: it is not terminal. It comes at most once a second for one
// partition.
type PartitionError struct {
	Topic     string
	Partition int32 // -1: the whole topic
	Offset    int64 // where reading stands; -1: it has not begun
	Err       error
}

func (e *PartitionError) Error() string {
	return fmt.Sprintf("marshal: %s/%d at offset %d: %v", e.Topic, e.Partition, e.Offset, e.Err)
}

// Unwrap gives the cause.
func (e *PartitionError) Unwrap() error { return e.Err }
