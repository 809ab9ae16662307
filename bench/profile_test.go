package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTopCosts(t *testing.T) {
	assert.Equal(t, []string{"40.00% runtime.memmove", "10.00% batch.(*Reader).Next", "0% marshal.open"}, topCosts(`File: bench
Type: cpu
Duration: 1.21s, Total samples = 1.00s (82.64%)
Showing nodes accounting for 0.50s, 50.00% of 1.00s total
      flat  flat%   sum%        cum   cum%
     0.40s 40.00% 40.00%      0.40s 40.00%  runtime.memmove
     0.10s 10.00% 50.00%      0.30s 30.00%  github.com/kafka-marshal/marshal/internal/batch.(*Reader).Next (inline)
         0     0% 50.00%      0.30s 30.00%  github.com/kafka-marshal/marshal.open
`))
}
