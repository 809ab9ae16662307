// Package toy has mutants of each kind, some of which its tests notice.
package toy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/rule"
)

const (
	held = iota + 1 // a name, not an amount
	most = 8
)

const pause = 10 * time.Second

// Well is tested well.
func Well(a, b int) (n int, ok bool) {
	if a < b && b != 100 {
		return b - a, true
	}
	return 0, false
}

// Badly is tested with 5 and -5, so nobody sees what 0 gives.
func Badly(n int) bool {
	return n > 0
}

// Never is not tested.
func Never(on bool) string {
	if !on {
		return "off"
	}
	return "on"
}

// Sum adds up.
func Sum(numbers []int) int {
	sum := 0
	for i := 0; i < len(numbers); i++ {
		sum += numbers[i]
	}
	return sum
}

// Halvings has a loop that one mutant never leaves.
func Halvings(n int) (times int) {
	for n > 1 {
		n /= 2
		times++
	}
	return times
}

// Grown makes room, which is no behaviour.
func Grown(numbers []int, n int) []int {
	numbers = slices.Grow(numbers, n+1)
	return append(make([]int, 0, n+1), numbers...)
}

// Due is settled by constants.
func Due(waited time.Duration, count int) bool {
	return waited >= pause || count > most
}

// Named compares a name.
func Named(n int) bool { return n == held }

// Nested has mutants in what mutants wrap.
func Nested(a, b, c bool, shift uint8) uint64 {
	if (a || b) && !c {
		return 1<<(shift+1) | 1
	}
	return 0
}

// Breakable leaves what is done where a rule is broken alone.
func Breakable(n uint8) error {
	if rule.Broken(rule.CAS) && n > 1 {
		n++
	}
	switch {
	case n > 3 && !rule.Broken(rule.Seq):
		return fmt.Errorf("%d is %d too many", n, n-3)
	case rule.Broken(rule.Epoch):
		return errors.New("broken")
	}
	return nil
}

type text int

func (t text) String() string {
	if t > 1 {
		return "many"
	}
	return "few"
}
