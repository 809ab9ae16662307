package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// toyFates are the mutants of the toy and what becomes of each. What is not listed must not be mutated.
const toyFates = `
killed: Well: logic: a < b && b != 100 => a < b || b != 100
killed: Well: negation: a < b => a >= b
killed: Well: boundary: a < b => a <= b
killed: Well: negation: b != 100 => b == 100
killed: Well: result: b - a => 0
killed: Well: arithmetic: b - a => b + a
killed: Well: result: true => false
killed: Well: result: false => true
killed: Badly: negation: n > 0 => n <= 0
not reached: Badly: boundary: n > 0 => n >= 0
not reached: Never: negation: !on => on
killed: Sum: negation: i < len(numbers) => i >= len(numbers)
killed: Sum: boundary: i < len(numbers) => i <= len(numbers)
killed: Sum: increment: i++ => i--
killed: Sum: increment: sum += numbers[i] => sum -= numbers[i]
killed: Sum: removal: sum += numbers[i] => nothing
killed: Sum: result: sum => 0
killed: Halvings: negation: n > 1 => n <= 1
killed: Halvings: boundary: n > 1 => n >= 1
killed: Halvings: increment: n /= 2 => n *= 2
endless: Halvings: removal: n /= 2 => nothing
killed: Halvings: increment: times++ => times--
killed: Halvings: removal: times++ => nothing
killed: Halvings: result: times => 0
killed: Grown: result: append(make([]int, 0, n+1), numbers...) => nil
killed: Due: logic: waited >= pause || count > most => waited >= pause && count > most
killed: Due: negation: waited >= pause => waited < pause
killed: Due: boundary: waited >= pause => waited > pause
killed: const pause: constant: pause = 10 * time.Second => half of it
killed: const pause: constant: pause = 10 * time.Second => twice
killed: Due: negation: count > most => count <= most
not reached: Due: boundary: count > most => count >= most
unnoticed: const most: constant: most = 8 => half of it
unnoticed: const most: constant: most = 8 => twice
killed: Named: negation: n == held => n != held
killed: Nested: logic: (a || b) && !c => (a || b) || !c
killed: Nested: logic: a || b => a && b
killed: Nested: negation: a => !a
killed: Nested: negation: b => !b
killed: Nested: negation: !c => c
killed: Nested: result: 1<<(shift+1) | 1 => 0
killed: Nested: arithmetic: 1<<(shift+1) | 1 => 1<<(shift+1) & 1
killed: Nested: arithmetic: 1<<(shift+1) => 1 >> (shift+1)
killed: Nested: arithmetic: shift+1 => shift - 1
killed: Nested: result: 0 => 1
killed: Breakable: negation: n > 3 => n <= 3
killed: Breakable: boundary: n > 3 => n >= 3
killed: Breakable: result: fmt.Errorf("%d is %d too many", n, n-3) => nil
`

// mutateToy runs the command on the toy.
func mutateToy(t *testing.T, survivors string, args ...string) (code int, out string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "survivors.txt")
	require.NoError(t, os.WriteFile(file, []byte(survivors), 0o600))
	var stdout, progress bytes.Buffer
	code = mutate(t.Context(), append(append([]string{"-survivors", file}, args...), "./testdata/toy"), &stdout, &progress)
	t.Log(progress.String())
	return code, stdout.String()
}

func last(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

func TestTheMutantsOfAToyAreKnownAndSoIsTheirFate(t *testing.T) {
	code, out := mutateToy(t, "", "-all")
	assert.Equal(t, 1, code, "less than 90 %")
	told := regexp.MustCompile(`(?m)^# toy\.go:\d+ #\d+: (killed|endless|unnoticed|not reached).*\n\ttoy: (.*)$`)
	var got []string
	for _, m := range told.FindAllStringSubmatch(out, -1) {
		got = append(got, m[1]+": "+m[2])
	}
	assert.Equal(t, strings.Split(strings.TrimSpace(toyFates), "\n"), got)
	assert.Equal(t, "mutation: mutants=48 killed=43 endless=1 survived=5 unreached=3 explained=0 percent=89.6", last(out))
}

func TestASurvivorIsExplainedUnknownOrNoLongerOne(t *testing.T) {
	const boundaryOfBadly = "toy: Badly: boundary: n > 0 => n >= 0"
	const ofWell = "toy: Well: boundary: a < b => a <= b"
	code, out := mutateToy(t, "# why\nnobody asks with 0\n\n\t"+boundaryOfBadly+"\n\t"+ofWell+"\n", "-in", "Badly|Well|Never")
	assert.Equal(t, 1, code)
	assert.NotContains(t, out, boundaryOfBadly)
	assert.Regexp(t, `needs no reason any longer\n\t`+regexp.QuoteMeta(ofWell), out)
	assert.Contains(t, out, ": not reached\n\ttoy: Never: negation: !on => on\n")
	assert.Equal(t, "mutation: mutants=11 killed=9 endless=0 survived=2 unreached=2 explained=1 percent=81.8", last(out))
}

func TestNinetyPercentAreEnough(t *testing.T) {
	code, out := mutateToy(t, "", "-in", "Well|Badly: boundary|Named")
	assert.Zero(t, code)
	assert.Equal(t, "mutation: mutants=10 killed=9 endless=0 survived=1 unreached=1 explained=0 percent=90.0", last(out))
}

func TestAFileOfSurvivorsThatIsWrongIsRefused(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"no reason", "\ta: b\n"},
		{"twice", "x\n\ta: b\ny\n\ta: b\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _ := mutateToy(t, c.text)
			assert.Equal(t, 2, code)
		})
	}
}

func TestTheSurvivorsFileIsRight(t *testing.T) {
	_, err := readSurvivors("survivors.txt")
	assert.NoError(t, err)
}

// Text put before and after nodes nests, whether they begin or end together or touch.
func TestEditsNest(t *testing.T) {
	var e edits
	wrap := func(at, until int, before, after string) {
		e.add(edit{at: at, until: at, text: before})
		e.add(edit{at: until, until: until, text: after, closes: true})
	}
	wrap(0, 3, "<", ">")
	wrap(0, 3, "[", "]")
	wrap(0, 1, "(", ")")
	e.replace(1, 2, ",")
	wrap(2, 3, "{", "}")
	wrap(3, 4, "|", "|")
	assert.Equal(t, "<[(a),{b}]>|c|", string(e.apply([]byte("a+bc"))))
}

func TestTheCheapestTestsRunFirst(t *testing.T) {
	reached, not := []byte{1}, []byte{0}
	tests := []*test{{"A", 1, reached}, {"B", 2, not}, {"C", 3, reached}, {"D", 60e6, reached}, {"E", 80e6, reached}, {"F", 9e9, reached}}
	var patterns []string
	for _, b := range batches(tests, 0) {
		patterns = append(patterns, b.pattern)
	}
	assert.Equal(t, []string{"^(A|C)$", "^(D|E)$", "^(F)$"}, patterns)
	assert.Empty(t, batches(slices.DeleteFunc(tests, func(t *test) bool { return t.reached[0] == 1 }), 0))
}
