//go:build integration

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/workers"
)

// TestMain: this program is its own worker processes too.
func TestMain(m *testing.M) {
	workers.Serve()
	testutil.VerifyNoLeaks(m)
}

// real lists the brokers of the real Kafka that the tests are to run on; none: each takes an embedded broker.
func real() []string {
	if b := os.Getenv("MARSHAL_BROKERS"); b != "" {
		return strings.Split(b, ",")
	}
	return nil
}

// The brokers that a test wants.
const (
	oneBroker    = 1 << iota // a real one
	threeBrokers             // real ones, which it may stop
	embedded
)

// on skips a test that is not for the brokers that there are.
func on(t *testing.T, wanted int) {
	t.Helper()
	have := map[int]int{0: embedded, 1: oneBroker, 3: threeBrokers}[len(real())]
	if wanted&have == 0 {
		t.Skipf("not for %d real brokers", len(real()))
	}
}

// apart lets a test run beside others of its kind: those that mostly wait, and whose figures bear it. They need one broker.
func apart(t *testing.T) {
	t.Helper()
	on(t, oneBroker|embedded)
	t.Parallel()
}

// kafkaScript does something to the real brokers.
func kafkaScript(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("../testutil/realkafka/kafka.sh", args...).CombinedOutput()
	require.NoError(t, err, "kafka.sh %s: %s", strings.Join(args, " "), out)
	return string(out)
}

// figure prints what was measured.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	where := "embedded"
	if n := len(real()); n > 0 {
		where = fmt.Sprintf("%d real", n)
	}
	t.Logf("figure: [%s] %s: %s", where, strings.TrimPrefix(t.Name(), "Test"), fmt.Sprintf(format, args...))
}

// spread describes durations.
func spread(took []time.Duration) string {
	if len(took) == 0 {
		return "n=0"
	}
	s := slices.Sorted(slices.Values(took))
	at := func(q float64) time.Duration { return s[min(int(q*float64(len(s))), len(s)-1)] }
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }
	return fmt.Sprintf("n=%d p50=%s p99=%s max=%s", len(s), ms(at(0.5)), ms(at(0.99)), ms(s[len(s)-1]))
}
