package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
)

// measured is everything that bars are made of.
type measured struct {
	Topics []readings
	Own    figures
}

// keep adds what was measured to a file and gives all that the file has then, so that it can be measured in parts. To begin anew, remove
// the file.
func (m measured) keep(file string) (all measured, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return all, err
	}
	all = all.and(m)
	if text, err = json.Marshal(all); err != nil {
		return all, err
	}
	return all, os.WriteFile(file, text, 0o644)
}

// and adds rounds to those of the same topic, and runs to those of the same benchmark.
func (m measured) and(more measured) measured {
	for _, rs := range more.Topics {
		i := slices.IndexFunc(m.Topics, func(x readings) bool { return x.String() == rs.String() })
		if i < 0 {
			m.Topics = append(m.Topics, rs)
			continue
		}
		m.Topics[i].Rounds = append(m.Topics[i].Rounds, rs.Rounds...)
	}
	if m.Own == nil {
		m.Own = figures{}
	}
	for name, units := range more.Own {
		for unit, values := range units {
			m.Own.add(name, unit, values...)
		}
	}
	return m
}
