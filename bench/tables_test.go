package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTextsGoBetweenTheirMarkers(t *testing.T) {
	page := "before\n<!-- tables -->\nold\n<!-- /tables -->\nafter\n"
	for range 2 { // again and again
		var err error
		page, err = between(page, "tables", "new\n")
		require.NoError(t, err)
		assert.Equal(t, "before\n<!-- tables -->\n\nnew\n\n<!-- /tables -->\nafter\n", page)
	}
	_, err := between(page, "bars", "new")
	assert.Error(t, err)
}
