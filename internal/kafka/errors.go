package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/IBM/sarama"
)

// What a caller decides on. A *BrokerError matches the one of its code, and the sarama.KError of its code too.
var (
	ErrClosed               = errors.New("closed")
	ErrUnknownTopic         = errors.New("unknown topic or partition")
	ErrUnknownTopicID       = errors.New("unknown topic id: the topic was deleted or recreated")
	ErrNotLeader            = errors.New("no leader there")
	ErrFencedEpoch          = errors.New("leader epoch is outdated")
	ErrUnknownEpoch         = errors.New("leader epoch is newer than the broker's")
	ErrOutOfRange           = errors.New("offset out of range")
	ErrAuthorization        = errors.New("not authorized")
	ErrTopicAuthorization   = fmt.Errorf("%w for the topic", ErrAuthorization)
	ErrGroupAuthorization   = fmt.Errorf("%w for the group", ErrAuthorization)
	ErrClusterAuthorization = fmt.Errorf("%w for the cluster", ErrAuthorization)
	ErrAuthentication       = errors.New("authentication failed")
	ErrTooLarge             = errors.New("too large for the broker")
	ErrCorrupt              = errors.New("corrupt")
	ErrCoordinator          = errors.New("group coordinator not available")
	ErrUnknownMember        = errors.New("another kind of consumer is using this group name")
	ErrUnsupportedVersion   = errors.New("not supported by the broker's version")
	ErrUnknownBroker        = errors.New("no such broker in the cluster")
	ErrIncomplete           = errors.New("answer leaves out what was asked")
)

// class is what a broker's error code means to us.
type class struct {
	is    error // its sentinel, if it has one
	again bool  // the same request may succeed later
	look  bool  // metadata is outdated
	void  bool  // as the answer to a produce request: surely nothing was appended
}

// classes by error code. One that is missing is nothing to try again.
//
// NOT_LEADER_OR_FOLLOWER is not void: a leader that is deposed while it waits for its followers answers it for records
// that it has appended, and the next leader may have them.
var classes = map[int16]class{
	-1:  {again: true}, // UNKNOWN_SERVER_ERROR
	1:   {is: ErrOutOfRange},
	2:   {is: ErrCorrupt, again: true, void: true},
	3:   {is: ErrUnknownTopic, again: true, look: true},
	5:   {is: ErrNotLeader, again: true, look: true},      // LEADER_NOT_AVAILABLE
	6:   {is: ErrNotLeader, again: true, look: true},      // NOT_LEADER_OR_FOLLOWER
	7:   {again: true},                                    // REQUEST_TIMED_OUT
	8:   {again: true, look: true},                        // BROKER_NOT_AVAILABLE
	9:   {is: ErrNotLeader, again: true, look: true},      // REPLICA_NOT_AVAILABLE
	10:  {is: ErrTooLarge, void: true},                    // MESSAGE_TOO_LARGE
	12:  {is: ErrTooLarge},                                // OFFSET_METADATA_TOO_LARGE
	13:  {again: true, look: true},                        // NETWORK_EXCEPTION
	14:  {is: ErrCoordinator, again: true},                // COORDINATOR_LOAD_IN_PROGRESS
	15:  {is: ErrCoordinator, again: true},                // COORDINATOR_NOT_AVAILABLE
	16:  {is: ErrCoordinator, again: true},                // NOT_COORDINATOR
	17:  {void: true},                                     // INVALID_TOPIC
	18:  {is: ErrTooLarge, void: true},                    // RECORD_LIST_TOO_LARGE
	19:  {again: true, void: true},                        // NOT_ENOUGH_REPLICAS, before the append
	20:  {again: true},                                    // NOT_ENOUGH_REPLICAS_AFTER_APPEND
	21:  {void: true},                                     // INVALID_REQUIRED_ACKS
	22:  {is: ErrUnknownMember},                           // ILLEGAL_GENERATION
	25:  {is: ErrUnknownMember},                           // UNKNOWN_MEMBER_ID
	27:  {is: ErrUnknownMember},                           // REBALANCE_IN_PROGRESS
	29:  {is: ErrTopicAuthorization, void: true},          //
	30:  {is: ErrGroupAuthorization},                      //
	31:  {is: ErrClusterAuthorization, void: true},        //
	32:  {void: true},                                     // INVALID_TIMESTAMP
	33:  {is: ErrAuthentication},                          // UNSUPPORTED_SASL_MECHANISM
	34:  {is: ErrAuthentication},                          // ILLEGAL_SASL_STATE
	35:  {is: ErrUnsupportedVersion, void: true},          //
	38:  {again: true},                                    // INVALID_REPLICATION_FACTOR: of the brokers alive just now
	41:  {again: true, look: true},                        // NOT_CONTROLLER
	42:  {void: true},                                     // INVALID_REQUEST
	43:  {void: true},                                     // UNSUPPORTED_FOR_MESSAGE_FORMAT
	44:  {void: true},                                     // POLICY_VIOLATION
	51:  {again: true},                                    // CONCURRENT_TRANSACTIONS
	56:  {is: ErrNotLeader, again: true, look: true},      // KAFKA_STORAGE_ERROR: the broker lost the disk
	58:  {is: ErrAuthentication},                          // SASL_AUTHENTICATION_FAILED
	60:  {again: true},                                    // REASSIGNMENT_IN_PROGRESS
	74:  {is: ErrFencedEpoch, again: true, look: true},    //
	75:  {is: ErrUnknownEpoch, again: true, look: true},   //
	76:  {void: true},                                     // UNSUPPORTED_COMPRESSION_TYPE
	78:  {is: ErrNotLeader, again: true, look: true},      // OFFSET_NOT_AVAILABLE: a new leader, not ready
	87:  {void: true},                                     // INVALID_RECORD
	88:  {again: true},                                    // UNSTABLE_OFFSET_COMMIT
	89:  {again: true, void: true},                        // THROTTLING_QUOTA_EXCEEDED
	100: {is: ErrUnknownTopicID, again: true, look: true}, //
	103: {is: ErrUnknownTopicID, again: true, look: true}, // INCONSISTENT_TOPIC_ID
	110: {is: ErrUnknownMember},                           // FENCED_MEMBER_EPOCH
	113: {is: ErrUnknownMember},                           // STALE_MEMBER_EPOCH
	129: {again: true, look: true},                        // REBOOTSTRAP_REQUIRED
}

// BrokerError is a broker's refusal.
type BrokerError struct {
	Code    int16
	Message string // the broker's own text, often empty
}

func (e *BrokerError) Error() string {
	k := sarama.KError(e.Code)
	var b strings.Builder
	if c := classes[e.Code]; c.is != nil {
		fmt.Fprintf(&b, "%v: ", c.is)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, "%s: ", e.Message)
	}
	fmt.Fprintf(&b, "broker error %d (%s)", e.Code, strings.TrimPrefix(k.Error(), "kafka server: "))
	return b.String()
}

// Unwrap gives the sentinel of the code and the sarama.KError.
func (e *BrokerError) Unwrap() []error {
	if c := classes[e.Code]; c.is != nil {
		return []error{c.is, sarama.KError(e.Code)}
	}
	return []error{sarama.KError(e.Code)}
}

// brokerError is nil for code 0.
func brokerError(code int16, message *string) error {
	if code == 0 {
		return nil
	}
	e := &BrokerError{Code: code}
	if message != nil {
		e.Message = *message
	}
	return e
}

// OffsetError says of which partition's offset an error is.
type OffsetError struct {
	Of  string
	Err error
}

func (e *OffsetError) Error() string { return fmt.Sprintf("offset of %s: %v", e.Of, e.Err) }
func (e *OffsetError) Unwrap() error { return e.Err }

func offsetError(topic string, partition int32, err error) error {
	return &OffsetError{Of: fmt.Sprintf("%s/%d", topic, partition), Err: err}
}

// ConnError is a connection that could not be opened, was cut, or did not answer in time.
type ConnError struct {
	Addr string
	Op   string // what was tried
	Err  error
}

func (e *ConnError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Addr, e.Err) }
func (e *ConnError) Unwrap() error { return e.Err }

// UnreachableError tells of each address that was tried why it did not serve.
type UnreachableError struct {
	Tried []*ConnError // the last reason of each address
	Cause error        // why no more was tried; nil: trying again would change nothing
}

func (e *UnreachableError) Error() string {
	var b strings.Builder
	b.WriteString("no broker could be used")
	for i, t := range e.Tried {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		fmt.Fprintf(&b, "%s: %v", t.Addr, t.Err)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, " (%v)", e.Cause)
	}
	return b.String()
}

// Unwrap gives the cause and each address's reason.
func (e *UnreachableError) Unwrap() []error {
	all := make([]error, 0, len(e.Tried)+1)
	if e.Cause != nil {
		all = append(all, e.Cause)
	}
	for _, t := range e.Tried {
		all = append(all, t)
	}
	return all
}

// add keeps the newest reason of each address, in the order in which they were first tried. That our time was over, in whichever
// step, says less than what came before.
func (e *UnreachableError) add(addr string, err error) {
	t := &ConnError{Addr: addr, Op: "reach", Err: err}
	if c, ok := errors.AsType[*ConnError](err); ok && c.Addr == addr {
		t = c
	}
	for i := range e.Tried {
		if e.Tried[i].Addr == addr {
			if !outOfTime(err) {
				e.Tried[i] = t
			}
			return
		}
	}
	e.Tried = append(e.Tried, t)
}

// outOfTime tells whether an attempt ended because our own time for it did, and the connection was closed under it then.
func outOfTime(err error) bool {
	for _, ours := range []error{context.DeadlineExceeded, context.Canceled, os.ErrDeadlineExceeded, net.ErrClosed} {
		if errors.Is(err, ours) {
			return true
		}
	}
	return false
}

// Retriable tells whether the same call may succeed later without anybody changing a setting.
func Retriable(err error) bool {
	if err == nil || errors.Is(err, ErrClosed) || errors.Is(err, ErrAuthentication) || errors.Is(err, context.Canceled) {
		return false
	}
	if b, ok := errors.AsType[*BrokerError](err); ok {
		return classes[b.Code].again
	}
	if _, ok := errors.AsType[*ConnError](err); ok {
		return true
	}
	return errors.Is(err, ErrIncomplete) || errors.Is(err, ErrUnknownBroker) || errors.Is(err, ErrNotLeader) ||
		errors.Is(err, ErrCorrupt) || errors.Is(err, context.DeadlineExceeded)
}

// LookAgain tells whether the error says that what is known of the topic is outdated: ask Topics, then go on.
func LookAgain(err error) bool {
	if b, ok := errors.AsType[*BrokerError](err); ok {
		return classes[b.Code].look
	}
	if _, ok := errors.AsType[*ConnError](err); ok {
		return true
	}
	return errors.Is(err, ErrUnknownBroker) || errors.Is(err, ErrNotLeader)
}

// Unauthorized tells whether the user may not do this.
func Unauthorized(err error) bool { return errors.Is(err, ErrAuthorization) }

// needs adds to an error, if it is of a missing right, which one: "Read on topic t". Who lacks Describe is told to grant Read, which
// is needed too, and includes it.
func needs(err error, right, kind, name string) error {
	if Unauthorized(err) {
		return fmt.Errorf("%w: grant %s on %s %s", err, right, kind, name)
	}
	return err
}

// refused marks an append that surely left nothing in the log.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// Refused tells of an error of Append that surely nothing was written. For any other error that is unknown.
func Refused(err error) bool {
	_, ok := errors.AsType[refused](err)
	return ok
}

// openError explains why a connection could not be opened. Where trying again in a moment can change nothing, because the two
// sides do not accept each other, it is an ErrAuthentication.
func openError(addr, hint string, err error) *ConnError {
	if hint != "" {
		err = fmt.Errorf("%w (%s)", err, hint)
	}
	if notAccepted(err) {
		err = fmt.Errorf("%w: %w", ErrAuthentication, err)
	}
	return &ConnError{Addr: addr, Op: "open", Err: err}
}

func notAccepted(err error) bool {
	for _, k := range []error{sarama.ErrSASLAuthenticationFailed, sarama.ErrUnsupportedSASLMechanism, sarama.ErrIllegalSASLState, errWantsTLS} {
		if errors.Is(err, k) {
			return true
		}
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	return untrusted || plain || isRemoteAlert(err)
}

// isRemoteAlert tells whether the peer has ended TLS with a reason.
func isRemoteAlert(err error) bool {
	o, ok := errors.AsType[*net.OpError](err)
	return ok && o.Op == "remote error"
}
