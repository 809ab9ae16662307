package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// readKeys reads what stands on the indented lines of a file.
func readKeys(path string) (map[string]bool, error) {
	text, err := os.ReadFile(path)
	keys := map[string]bool{}
	for l := range strings.Lines(string(text)) {
		if key, ok := strings.CutPrefix(l, "\t"); ok {
			keys[strings.TrimSpace(key)] = true
		}
	}
	return keys, err
}

// readSurvivors reads the mutants that are known to survive, by their keys, with the reason why that does not matter.
//
// A reason stands at the beginning of a line, and the mutants that it explains on the indented lines that follow. Lines that
// begin with # and empty ones are for the reader.
func readSurvivors(path string) (map[string]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reasons := map[string]string{}
	reason := ""
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		l := lines.Text()
		key := strings.TrimSpace(l)
		switch {
		case key == "" || l[0] == '#':
		case l[0] != '\t' && l[0] != ' ':
			reason = key
		case reason == "":
			return nil, fmt.Errorf("%s:%d: a survivor without a reason", path, n)
		case reasons[key] != "":
			return nil, fmt.Errorf("%s:%d: listed twice: %s", path, n, key)
		default:
			reasons[key] = reason
		}
	}
	return reasons, lines.Err()
}
