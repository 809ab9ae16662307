// Package point is what a mutated package calls at each of its mutation points. All mutants of a package are in one test
// binary; MUTANT chooses the one that lives, by its number. MUTANT_CPU is how much CPU the process may use.
//
// Where MUTANT_REACHED names a file, the binary marks in it, a byte a mutant, each whose point was passed in a state in
// which it would have made a difference. A mutant that makes none there cannot be noticed anywhere.
package point

import (
	"cmp"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
)

var (
	alive   = -1
	reached []byte
)

// Spent is how a process ends that has used up its MUTANT_CPU.
const Spent = 99

// watch looks again and again whether the process has used more CPU than it may. A limit of the system's counts whole seconds,
// and many mutants run for ever.
func watch(most time.Duration) {
	var u syscall.Rusage
	var again *time.Timer
	again = time.AfterFunc(time.Hour, func() {
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err == nil && time.Duration(u.Utime.Nano()+u.Stime.Nano()) > most {
			os.Exit(Spent)
		}
		again.Reset(look)
	})
	again.Reset(look)
}

const look = 20 * time.Millisecond

// stack is how much a runaway recursion may take before it is a crash.
const stack = 64 << 20

func init() {
	debug.SetMaxStack(stack)
	if s := os.Getenv("MUTANT"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			panic(err)
		}
		alive = n
	}
	if s := os.Getenv("MUTANT_CPU"); s != "" {
		most, err := time.ParseDuration(s)
		if err != nil {
			panic(err)
		}
		watch(most)
	}
	if name := os.Getenv("MUTANT_REACHED"); name != "" {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			panic(err)
		}
		info, err := f.Stat()
		if err != nil {
			panic(err)
		}
		// Shared memory, since nobody is told when a test binary ends.
		reached, err = syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		if err != nil {
			panic(err)
		}
	}
}

// On tells whether the mutant lives, where passing its point is what makes a difference.
func On(id int) bool {
	if reached != nil {
		reached[id] = 1
	}
	return id == alive
}

// Off tells whether the mutant does not live.
func Off(id int) bool { return id != alive }

func choose[T comparable](id int, was, is T) T {
	if reached != nil && was != is {
		reached[id] = 1
	}
	if id == alive {
		return is
	}
	return was
}

// Less is a < b, or a <= b.
func Less[T cmp.Ordered](id int, a, b T) bool { return choose(id, a < b, a <= b) }

// LessEqual is a <= b, or a < b.
func LessEqual[T cmp.Ordered](id int, a, b T) bool { return choose(id, a <= b, a < b) }

// Greater is a > b, or a >= b.
func Greater[T cmp.Ordered](id int, a, b T) bool { return choose(id, a > b, a >= b) }

// GreaterEqual is a >= b, or a > b.
func GreaterEqual[T cmp.Ordered](id int, a, b T) bool { return choose(id, a >= b, a > b) }

// Integer is what % and the operators on bits take.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Number is what + takes, but strings.
type Number interface{ Integer | ~float32 | ~float64 }

// Add is a + b, or a - b.
func Add[T Number](id int, a, b T) T { return choose(id, a+b, a-b) }

// Sub is a - b, or a + b.
func Sub[T Number](id int, a, b T) T { return choose(id, a-b, a+b) }

// Mul is a * b, or a / b.
func Mul[T Number](id int, a, b T) T {
	if b == 0 && !On(id) {
		return a * b
	}
	return choose(id, a*b, a/b)
}

// Quo is a / b, or a * b.
func Quo[T Number](id int, a, b T) T { return choose(id, a/b, a*b) }

// Rem is a % b, or a * b.
func Rem[T Integer](id int, a, b T) T { return choose(id, a%b, a*b) }

// And is a & b, or a | b.
func And[T Integer](id int, a, b T) T { return choose(id, a&b, a|b) }

// Or is a | b, or a & b.
func Or[T Integer](id int, a, b T) T { return choose(id, a|b, a&b) }

// Xor is a ^ b, or a & b.
func Xor[T Integer](id int, a, b T) T { return choose(id, a^b, a&b) }

// AndNot is a &^ b, or a & b.
func AndNot[T Integer](id int, a, b T) T { return choose(id, a&^b, a&b) }

// Shl is a << b, or a >> b.
func Shl[T, S Integer](id int, a T, b S) T { return choose(id, a<<b, a>>b) }

// Shr is a >> b, or a << b.
func Shr[T, S Integer](id int, a T, b S) T { return choose(id, a>>b, a<<b) }

// Neg is -a, or a.
func Neg[T Number](id int, a T) T { return choose(id, -a, a) }

// Step is what x++ or x-- adds: step, or its opposite.
func Step[T Number](id int, step T) T { return choose(id, step, -step) }

// Zero is v, or the zero value.
func Zero[T any](id int, v T) T {
	if reached != nil && !isZero(v) {
		reached[id] = 1
	}
	if id == alive {
		var zero T
		return zero
	}
	return v
}

//go:noinline
func isZero[T any](v T) bool { return reflect.ValueOf(&v).Elem().IsZero() }

// One is 0, or 1.
func One[T Number](id int, zero T) T { return choose(id, zero, 1) }

// Constant is c, or half of it, or twice.
func Constant[T Number](half, twice int, c T) T {
	return choose(twice, choose(half, c, c/2), 2*c)
}
