package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Schedule names a run: a seed, and what in it is not as the seed says. It is written as "7331" or as
// "7331,members=30,often=freeze", and the same one gives the same run.
type Schedule struct {
	Seed uint64
	Set  []Setting // at most one of each parameter, in the order of the parameters
}

// Setting gives one parameter of a run a value.
type Setting struct {
	Parameter Parameter
	Value     int
}

// ParseSchedule reads what String has written.
func ParseSchedule(text string) (Schedule, error) {
	seed, settings, more := strings.Cut(text, ",")
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return Schedule{}, fmt.Errorf("a schedule begins with its seed: %w", err)
	}
	sc := Schedule{Seed: n}
	for more {
		var setting, name, value string
		setting, settings, more = strings.Cut(settings, ",")
		name, value, _ = strings.Cut(setting, "=")
		p := slices.Index(parameterNames[:], name)
		if p < 0 {
			return Schedule{}, fmt.Errorf("no parameter is called %q", name)
		}
		v, err := Parameter(p).parse(value)
		if err != nil {
			return Schedule{}, err
		}
		sc = sc.with(Parameter(p), v)
	}
	return sc, nil
}

func (sc Schedule) String() string {
	var b strings.Builder
	b.WriteString(strconv.FormatUint(sc.Seed, 10))
	for _, s := range sc.Set {
		fmt.Fprintf(&b, ",%s=%s", parameterNames[s.Parameter], s.Parameter.format(s.Value))
	}
	return b.String()
}

// with gives the schedule with one parameter set.
func (sc Schedule) with(p Parameter, value int) Schedule {
	sc.Set = slices.Clone(sc.Set)
	i, found := slices.BinarySearchFunc(sc.Set, p, func(s Setting, p Parameter) int { return int(s.Parameter - p) })
	if !found {
		sc.Set = slices.Insert(sc.Set, i, Setting{})
	}
	sc.Set[i] = Setting{p, value}
	return sc
}

func (p Parameter) isFault() bool { return p == often1 || p == often2 || p == often3 }

// faultLabel is the name of a fault as a schedule has it.
func faultLabel(k faultKind) string {
	return strings.NewReplacer(" ", "-", ",", "", ":", "", "(", "-", ")", "").Replace(faultNames[k])
}

func (p Parameter) format(v int) string {
	if p.isFault() && v > 0 && v <= int(lastEvent) {
		return faultLabel(faultKind(v - 1))
	}
	return strconv.Itoa(v)
}

func (p Parameter) parse(text string) (int, error) {
	if p.isFault() {
		for k := range lastEvent {
			if faultLabel(k) == text {
				return int(k) + 1, nil
			}
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s=%s: %w", parameterNames[p], text, err)
	}
	if v < 0 || p.isFault() && v != 0 {
		return 0, fmt.Errorf("%s=%s: no such value", parameterNames[p], text)
	}
	return v, nil
}

// Mutate gives a schedule near this one: one parameter has another value, some faults are more frequent, or from some fault
// on everything comes otherwise. partner is another schedule whose settings may be taken over.
func (sc Schedule) Mutate(rng *rand.Rand, partner Schedule) Schedule {
	switch rng.IntN(8) {
	case 0, 1, 2:
		return sc.with(forkAt, rng.IntN(12)).with(forkTo, 1+rng.IntN(1<<20))
	case 3, 4:
		return sc.with(often1+Parameter(rng.IntN(3)), 1+rng.IntN(int(lastEvent)))
	case 5:
		for _, s := range partner.Set {
			sc = sc.with(s.Parameter, s.Value)
		}
		sc.Seed = rng.Uint64() >> 24
		return sc
	}
	p := Parameter(rng.IntN(int(often1)))
	kind := small
	if rng.IntN(4) == 0 {
		kind = medium
	}
	return sc.with(p, p.draw(&choice{rng: rng, size: kind}))
}
