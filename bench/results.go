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

// keep writes what was measured to a file and gives all that the file has then: a topic, or a benchmark of the library, takes the
// place of what was measured of it before. So a part can be measured again, or one after the other.
func (m measured) keep(file string) (all measured, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return all, err
	}
	all = all.with(m)
	if text, err = json.Marshal(all); err != nil {
		return all, err
	}
	return all, os.WriteFile(file, text, 0o644)
}

func (m measured) with(newer measured) measured {
	for _, rs := range newer.Topics {
		same := func(x readings) bool { return x.Name == rs.Name }
		if i := slices.IndexFunc(m.Topics, same); i >= 0 {
			m.Topics[i] = rs
		} else {
			m.Topics = append(m.Topics, rs)
		}
	}
	for name, f := range newer.Own {
		if m.Own == nil {
			m.Own = figures{}
		}
		m.Own[name] = f
	}
	return m
}
