package house

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheModuleKeepsTheRules(t *testing.T) {
	breaches, err := Check("../..")
	require.NoError(t, err)
	for _, b := range breaches {
		t.Error(b)
	}
}

// TestEveryRuleFindsItsBreach plants a breach and the nearest thing that is allowed, in files of that name.
func TestEveryRuleFindsItsBreach(t *testing.T) {
	const (
		lease  = "internal/lease/x.go"
		kafka  = "internal/kafka/x.go"
		root   = "x.go"
		inTest = "x_test.go"
	)
	for _, c := range []struct {
		rule, file, source string
		says               string // "" for allowed
	}{
		{"imports", lease, `import _ "` + Module + `/internal/member"`, "internal/lease (floor 1) imports internal/member (floor 1)"},
		{"imports", lease, `import _ "` + Module + `/internal/kafka"`, "imports internal/kafka (floor 2)"},
		{"imports", lease, `import _ "` + Module + `/internal/rule"`, ""},
		{"imports", "internal/member/x.go", `import _ "` + Module + `/internal/lease"`, ""},
		{"imports", "internal/member/x.go", `import _ "` + Module + `/internal/window"`, "imports internal/window"},
		{"imports", "internal/lease/x_test.go", `import _ "` + Module + `/internal/window"`, ""},
		{"imports", "internal/lease/x_test.go", `import _ "` + Module + `/testutil"`, "imports testutil"},
		{"imports", "internal/kafka/x_test.go", `import _ "` + Module + `/testutil"`, ""},
		{"imports", kafka, `import _ "` + Module + `/testutil"`, "imports testutil (floor 4)"},
		{"imports", kafka, `import _ "` + Module + `"`, "internal/kafka (floor 2) imports  (floor 3)"},
		{"imports", root, `import _ "` + Module + `/internal/kafka"`, ""},
		{"imports", root, `import _ "` + Module + `/testutil"`, "the root (floor 3) imports testutil (floor 4)"},
		{"imports", root, `import _ "` + Module + `/internal/sim"`, "imports internal/sim"},
		{"imports", "testutil/x.go", `import _ "` + Module + `/marshal"`, "imports marshal"},
		{"imports", "marshal/x.go", `import _ "` + Module + `/testutil"`, ""},
		{"imports", "internal/sim/run/x.go", `import _ "` + Module + `/internal/sim"`, ""},
		{"imports", "internal/other/x.go", ``, "has no floor"},
		{"imports", root, `import . "strings"`, "dot import"},

		{"sarama", root, `import "github.com/IBM/sarama"; var _ = sarama.NewClient`, "sarama.NewClient outside"},
		{"sarama", "marshal/x.go", `import k "github.com/IBM/sarama"; var _ = k.NewSyncProducer`, "sarama.NewSyncProducer outside"},
		{"sarama", root, `import "github.com/IBM/sarama"; var _ = sarama.NewConfig`, ""},
		{"sarama", root, `import "github.com/IBM/sarama"; type T struct{ sarama.ConsumerMessage }`, ""},
		{"sarama", kafka, `import "github.com/IBM/sarama"; var _ = sarama.NewBroker`, ""},
		{"sarama", inTest, `import "github.com/IBM/sarama"; var _ = sarama.NewClient`, ""},
		{"sarama", "internal/batch/x.go", `import "github.com/IBM/sarama"; var _ sarama.ConsumerMessage`, ""},
		{"sarama", "internal/batch/x.go", `import "github.com/IBM/sarama"; var _ sarama.Config`, "sarama.Config on floor 1"},

		{"verified", inTest, `import "` + Module + `/testutil"; var _ = testutil.NewCluster`, "whose logs nobody verifies"},
		{"verified", inTest, `import "` + Module + `/testutil"; func newBenchOn() { testutil.NewCluster() }`, ""},
		{"verified", "internal/kafka/x_test.go", `import "` + Module + `/testutil"; var _ = testutil.NewCluster`, ""},

		{"checkers", root, `import _ "` + porcupine + `"`, "outside of testutil"},
		{"checkers", "testutil/workers/x.go", `import _ "` + porcupine + `"`, "outside of testutil"},
		{"checkers", "testutil/x.go", `import _ "` + porcupine + `"`, ""},

		{"pure", lease, `import "time"; var _ = time.Now`, "time.Now"},
		{"pure", lease, `import clock "time"; var _ = clock.Since`, "time.Since"},
		{"pure", lease, `import "time"; var _ = time.NewTimer`, "time.NewTimer"},
		{"pure", lease, `import "time"; const d time.Duration = time.Second`, ""},
		{"pure", lease, `type clock struct{}; func (clock) Now() {}; func f(time clock) { time.Now() }`, ""},
		{"pure", lease, `var c chan int`, "channel"},
		{"pure", lease, `func f() { select {} }`, "select"},
		{"pure", lease, `func f() { c <- 1 }`, "sends"},
		{"pure", lease, `func f() { <-c }`, "receives"},
		{"pure", lease, `func f() { wg.Go(f) }`, "starts a goroutine"},
		{"pure", lease, `import _ "context"`, "imports context"},
		{"pure", lease, `import _ "os"`, "imports os"},
		{"pure", lease, `import _ "net/http"`, "imports net/http"},
		{"pure", lease, `import _ "log/slog"`, "imports log/slog"},
		{"pure", lease, `import _ "sync"`, "imports sync"},
		{"pure", lease, `import _ "sync/atomic"`, "imports sync/atomic"},
		{"pure", lease, `import _ "crypto/rand"`, "imports crypto/rand"},
		{"pure", lease, `import _ "github.com/sirupsen/logrus"`, "imports github.com/sirupsen/logrus"},
		{"pure", lease, `import "math/rand/v2"; var _ = rand.IntN`, "global random source: IntN"},
		{"pure", lease, `import "math/rand"; var _ = rand.Intn`, "global random source: Intn"},
		{"pure", lease, `import "math/rand/v2"; var _ = rand.New(rand.NewPCG(1, 2))`, ""},
		{"pure", lease, `import _ "io"`, ""},
		{"pure", "internal/lease/x_test.go", `import _ "os"; var c chan int`, ""},
		{"pure", kafka, `import _ "context"; var c chan int`, ""},

		{"edge", kafka, `func f() { wg.Go(f) }`, "floor 2 starts a goroutine"},
		{"edge", "message_format.go", `func f() { wg.Go(f) }`, "floor 2 starts a goroutine"},
		{"edge", kafka, `import "time"; var _ = time.AfterFunc(0, nil)`, "time.AfterFunc"},
		{"edge", kafka, `import _ "github.com/sirupsen/logrus"`, "imports github.com/sirupsen/logrus"},
		{"edge", root, `func f() { wg.Go(f) }`, ""},

		{"sleep", inTest, `import "time"; func f() { time.Sleep(1) }`, "time.Sleep"},
		{"sleep", root, `import "time"; var pause = time.Sleep`, "time.Sleep"},
		{"go", inTest, `func f() { go f() }`, "bare go"},
		{"go", root, `func f() { g.Go(f) }`, ""},

		{"global state", root, `import "github.com/IBM/sarama"; func f() { sarama.Logger = nil }`, "sarama.Logger"},
		{"global state", inTest, `import "github.com/rcrowley/go-metrics"; func f() { metrics.UseNilMetrics = true }`, "UseNilMetrics"},
		{"global state", inTest, `import "github.com/rcrowley/go-metrics"; func TestMain() { metrics.UseNilMetrics = true }`, ""},
		{"global state", root, `import "github.com/rcrowley/go-metrics"; func TestMain() { metrics.UseNilMetrics = true }`, "UseNilMetrics"},
		{"global state", root, `import "github.com/sirupsen/logrus"; func f() { logrus.SetLevel(0) }`, "logrus.SetLevel"},
		{"global state", root, `import log "github.com/sirupsen/logrus"; func f() { log.Infof("x") }`, "logrus.Infof"},
		{"global state", root, `import "github.com/sirupsen/logrus"; func f() { logrus.StandardLogger().SetLevel(0) }`, "SetLevel changes"},
		{"global state", root, `import "github.com/sirupsen/logrus"; var l = logrus.New(); var d = logrus.StandardLogger()`, ""},
		{"global state", root, `import "log"; func f() { log.Println() }`, "log.Println"},

		{"length", root, strings.Repeat("\n", maxLines+1), "502 lines, more than 500"},
		{"length", inTest, strings.Repeat("\n", maxLines+1), ""},

		{"doc comments", root, `type Named struct{}`, "exported Named"},
		{"doc comments", root, `func Named() {}`, "exported Named"},
		{"doc comments", root, `type hidden int; func (hidden) Named() {}`, ""},
		{"doc comments", root, "// T is.\ntype T[X any] int\nfunc (*T[X]) Named() {}", "exported Named"},
		{"doc comments", root, "// T is.\ntype T int\nfunc (T) String() string { return \"\" }", ""},
		{"doc comments", root, `var Named = 1`, "exported Named"},
		{"doc comments", root, "// These are.\nconst (\n\tA = 1\n\tB = 2\n)", ""},
		{"doc comments", root, "const (\n\tA = 1 // one\n\tB = 2\n)", "exported B"},
		{"doc comments", inTest, `func Named() {}`, ""},

		{"paths", root, "// see /" + "home/somebody/notes", "/" + "home/somebody"},
		{"paths", root, `const dir = "/` + `root/x"`, "a path of somebody's machine"},
		{"paths", root, "// see https://example.com/" + "home/page and ./" + "work/x", ""},
	} {
		s, err := parse(c.file, "package x\n"+c.source)
		require.NoError(t, err, c.source)
		var found []string
		for _, b := range s.check() {
			if b.Rule == c.rule {
				found = append(found, b.Text)
			}
		}
		if c.says == "" {
			assert.Empty(t, found, "%s: %s: %s", c.rule, c.file, c.source)
			continue
		}
		if assert.Len(t, found, 1, "%s: %s: %s", c.rule, c.file, c.source) {
			assert.Contains(t, found[0], c.says)
		}
	}
}

func TestEveryRuleHasABreachPlanted(t *testing.T) {
	// A rule that is listed and never tested would be a rule that may find nothing.
	text, err := os.ReadFile("house_test.go")
	require.NoError(t, err)
	for _, r := range rules {
		assert.Contains(t, string(text), `{"`+r.name+`", `)
	}
}

func TestPathsAreFoundInAnyText(t *testing.T) {
	assert.Len(t, inText("Makefile", "a\nb /"+"work/x\n"), 1)
	assert.Equal(t, 2, inText("Makefile", "a\nb /"+"work/x\n")[0].Line)
	assert.Empty(t, inText("picture.png", "\x00 /"+"work/x"))
}

func TestAModuleWithoutGoFilesIsAMistake(t *testing.T) {
	_, err := Check(t.TempDir())
	assert.ErrorContains(t, err, "no Go file")
}
