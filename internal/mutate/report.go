package main

import (
	"fmt"
	"io"
	"path/filepath"
)

// tally counts the mutants of a package, or of several.
type tally struct {
	mutants, killed, endless, survived, unreached, explained int
}

func (t *tally) add(o tally) {
	t.mutants += o.mutants
	t.killed += o.killed
	t.endless += o.endless
	t.survived += o.survived
	t.unreached += o.unreached
	t.explained += o.explained
}

// percent is how many of a hundred mutants were noticed. Where there is none, nothing went unnoticed.
func (t tally) percent() float64 {
	if t.mutants == 0 {
		return 100
	}
	return 100 * float64(t.killed) / float64(t.mutants)
}

func (t tally) String() string {
	return fmt.Sprintf("mutants=%d killed=%d endless=%d survived=%d unreached=%d explained=%d percent=%.1f",
		t.mutants, t.killed, t.endless, t.survived, t.unreached, t.explained, t.percent())
}

// report counts the mutants, and prints the survivors that nobody has explained and the explained that survive no longer.
func (o *options) report(out io.Writer, mutants []*mutant, reasons map[string]string) tally {
	t := tally{mutants: len(mutants)}
	for _, m := range mutants {
		why, known := reasons[m.key()]
		place := fmt.Sprintf("%s:%d #%d", filepath.Base(m.file), m.line, m.id)
		switch {
		case m.fate.dead():
			t.killed++
		case known:
			t.explained++
		}
		switch m.fate {
		case endless:
			t.endless++
		case survived:
			t.survived++
		case unreached:
			t.survived++
			t.unreached++
		}
		if m.fate.dead() != known && !o.all {
			continue
		}
		fmt.Fprintf(out, "# %s: %s", place, m.fate)
		if m.fate.dead() {
			fmt.Fprintf(out, " by %s", m.killer)
		}
		switch {
		case m.fate.dead() && known:
			fmt.Fprint(out, ", so it needs no reason any longer")
		case known:
			fmt.Fprintf(out, ": %s", why)
		}
		fmt.Fprintf(out, "\n\t%s\n", m.key())
	}
	return t
}
