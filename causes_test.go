package marshal

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/kafka"
)

func TestEachCauseIsNamedOnceWithThePartitionsItConcerns(t *testing.T) {
	var cs causes
	require.NoError(t, cs.err())
	require.NoError(t, cs.errOf("lag of"))
	cs.add("orders", 0, nil)
	require.NoError(t, cs.err())
	missing := fmt.Errorf("%w: grant Read on topic orders", kafka.ErrTopicAuthorization)
	for _, id := range []int32{7, 2, 0, 3, 1, 3} {
		cs.add("orders", id, &kafka.OffsetError{Of: fmt.Sprintf("orders/%d", id), Err: missing})
	}
	gone := &kafka.BrokerError{Code: 6}
	cs.add("bills", 2, gone)
	cs.add("orders", 4, gone)
	assert.EqualError(t, cs.err(), "bills/2, orders/4: "+gone.Error()+"; orders [0-3,7]: not authorized for the topic: grant Read on topic orders")
	err := cs.errOf("marshal: lag of")
	assert.ErrorContains(t, err, "marshal: lag of bills/2")
	require.ErrorIs(t, err, ErrAuthorization)
	var b *kafka.BrokerError
	require.ErrorAs(t, err, &b)
	assert.EqualValues(t, 6, b.Code)
}

func TestErrorsOfManyPartitionsStayShort(t *testing.T) {
	texts := map[string]bool{}
	for range 5 {
		var cs causes
		for id := range int32(10_000) {
			cs.add("t", 2*id, errors.New("one"))
		}
		last := errors.New("the last")
		for i := range 30 {
			cs.add("u", int32(i+10), fmt.Errorf("cause %d", i))
		}
		cs.add("z", 0, last)
		err := cs.err()
		require.ErrorIs(t, err, last, "that is not named is found")
		assert.Contains(t, err.Error(), "and 9950 more]: one")
		assert.True(t, strings.HasSuffix(err.Error(), "u/18: cause 8; and 22 other causes"), err.Error())
		assert.Less(t, len(err.Error()), 1000)
		texts[err.Error()] = true
	}
	assert.Len(t, texts, 1, "always the same")
}
