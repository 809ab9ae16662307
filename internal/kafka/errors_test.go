package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
)

func TestEachClassOfBrokerErrors(t *testing.T) {
	for _, c := range []struct {
		code               int16
		is                 error
		retriable, look    bool
		refused, forbidden bool
	}{
		{code: 1, is: ErrOutOfRange},
		{code: 2, is: ErrCorrupt, retriable: true, refused: true},
		{code: 3, is: ErrUnknownTopic, retriable: true, look: true},
		{code: 5, is: ErrNotLeader, retriable: true, look: true},
		{code: 6, is: ErrNotLeader, retriable: true, look: true},
		{code: 7, retriable: true},
		{code: 10, is: ErrTooLarge, refused: true},
		{code: 12, is: ErrTooLarge},
		{code: 14, is: ErrCoordinator, retriable: true},
		{code: 15, is: ErrCoordinator, retriable: true},
		{code: 16, is: ErrCoordinator, retriable: true},
		{code: 18, is: ErrTooLarge, refused: true},
		{code: 19, retriable: true, refused: true},
		{code: 20, retriable: true},
		{code: 22, is: ErrUnknownMember},
		{code: 25, is: ErrUnknownMember},
		{code: 29, is: ErrTopicAuthorization, refused: true, forbidden: true},
		{code: 30, is: ErrGroupAuthorization, forbidden: true},
		{code: 31, is: ErrClusterAuthorization, refused: true, forbidden: true},
		{code: 35, is: ErrUnsupportedVersion, refused: true},
		{code: 56, is: ErrNotLeader, retriable: true, look: true},
		{code: 58, is: ErrAuthentication},
		{code: 74, is: ErrFencedEpoch, retriable: true, look: true},
		{code: 75, is: ErrUnknownEpoch, retriable: true, look: true},
		{code: 78, is: ErrNotLeader, retriable: true, look: true},
		{code: 87, refused: true},
		{code: 100, is: ErrUnknownTopicID, retriable: true, look: true},
		{code: 103, is: ErrUnknownTopicID, retriable: true, look: true},
		{code: 9999},
	} {
		err := fmt.Errorf("somewhere: %w", brokerError(c.code, nil))
		assert.ErrorIs(t, err, sarama.KError(c.code))
		if c.is != nil {
			assert.ErrorIs(t, err, c.is, "%d", c.code)
		}
		assert.Equal(t, c.retriable, Retriable(err), "retriable %d", c.code)
		assert.Equal(t, c.look, LookAgain(err), "look again %d", c.code)
		assert.Equal(t, c.forbidden, Unauthorized(err), "unauthorized %d", c.code)
		assert.Equal(t, c.refused, classes[c.code].void, "refused %d", c.code)
	}
	assert.NoError(t, brokerError(0, nil))
}

func TestABrokersTextIsInTheError(t *testing.T) {
	text := "the record is 2 MB"
	assert.EqualError(t, brokerError(10, &text),
		"too large for the broker: the record is 2 MB: broker error 10 (Message was too large, server rejected it to avoid allocation error)")
	assert.ErrorContains(t, brokerError(25, nil), "another kind of consumer is using this group name")
}

func TestRetriableErrorsOfOurOwn(t *testing.T) {
	cut := &ConnError{Addr: "a:1", Op: "read", Err: io.EOF}
	for err, want := range map[error][2]bool{
		nil:                      {false, false},
		cut:                      {true, true},
		ErrIncomplete:            {true, false},
		ErrUnknownBroker:         {true, true},
		ErrNotLeader:             {true, true},
		context.DeadlineExceeded: {true, false},
		context.Canceled:         {false, false},
		ErrClosed:                {false, false},
		ErrUnsupportedVersion:    {false, false},
		errors.New("other"):      {false, false},
	} {
		assert.Equal(t, want, [2]bool{Retriable(err), LookAgain(err)}, "%v", err)
	}
	assert.False(t, Retriable(fmt.Errorf("%w: %w", ErrClosed, cut)))
	assert.False(t, Retriable(&ConnError{Addr: "a:1", Op: "open", Err: ErrAuthentication}))
	assert.False(t, Refused(cut))
	assert.True(t, Refused(fmt.Errorf("append: %w", refused{cut})))
	assert.True(t, Retriable(refused{cut}))
}

func TestTheErrorOfAddressesSaysWhatEachDidAndNotMore(t *testing.T) {
	refused := &UnreachableError{}
	refused.add("a:1", openError("a:1", "", sarama.ErrSASLAuthenticationFailed))
	assert.Regexp(t, `^no broker could be used: a:1: authentication failed: .*SASL Authentication failed$`, refused.Error())
	assert.NotRegexp(t, "reached|answered", refused.Error())
	refused.add("b:1", noAnswer(context.DeadlineExceeded))
	refused.Cause = context.DeadlineExceeded
	assert.Regexp(t, `; b:1: no answer: context deadline exceeded \(context deadline exceeded\)$`, refused.Error())
	assert.ErrorIs(t, refused, ErrAuthentication)
}

func TestWhatAnAddressSaidIsNotForgottenWhenTimeIsOver(t *testing.T) {
	for _, over := range []error{
		noAnswer(context.DeadlineExceeded),
		noAnswer(context.Canceled),
		&ConnError{Addr: "a:1", Op: "write at", Err: &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}},
		&ConnError{Addr: "a:1", Op: "read at", Err: &net.OpError{Op: "read", Err: net.ErrClosed}},
	} {
		tried := &UnreachableError{}
		tried.add("a:1", over)
		assert.True(t, outOfTime(tried), "better than nothing")
		tried.add("a:1", openError("a:1", hintHungUp, io.EOF))
		tried.add("a:1", over)
		assert.ErrorContains(t, tried, hintHungUp)
		tried.add("a:1", openError("a:1", "", sarama.ErrSASLAuthenticationFailed))
		assert.NotContains(t, tried.Error(), hintHungUp, "the newest reason counts")
	}
}
