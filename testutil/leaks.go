package testutil

import (
	"testing"

	"github.com/rcrowley/go-metrics"
	"go.uber.org/goleak"
)

// VerifyNoLeaks runs a package's tests and fails where goroutines are left over. It is all of a TestMain:
//
//	func TestMain(m *testing.M) { testutil.VerifyNoLeaks(m) }
//
// Sarama's metrics are switched off for the process: their meters share a goroutine that never ends.
func VerifyNoLeaks(m *testing.M, opts ...goleak.Option) {
	metrics.UseNilMetrics = true
	goleak.VerifyTestMain(m, opts...)
}
