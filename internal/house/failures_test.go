package house

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/failures.md names the tests of each case. These tests keep the names true, and the cases complete.

var (
	caseRow  = regexp.MustCompile(`^\| (C\d+|–) \|`)
	testName = regexp.MustCompile(`\bTest[A-Z]\w+`)
	cases    = strings.Fields(`C01 C03 C05 C06 C08 C10 C12 C14 C16 C17 C21 C23 C25 C26 C27 C29 C32 C33 C35 C38 C40 C43 C45 C47
		C48 C50 C52 C54 C55 C57 C59 C61 C63 C64 C66 C68 C71 C73 C75 C77 C79 C82 C84 C86 C87 C89 C91 C93
		C94 C96 C98 C100 C101 C103 C106 C108 C110 C112 C114 C116 C118 C119 C122 C124 C126 C128 C130`)
)

// misnamed lists what is wrong with the page: tests that are not there, cases without a test that has their number, cases that are missing.
func misnamed(page string, tests map[string]bool) (wrong []string) {
	found := map[string]bool{}
	for _, line := range strings.Split(page, "\n") {
		m := caseRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		cells := strings.Split(line, "|")
		names := testName.FindAllString(cells[3], -1)
		numbered := false
		for _, name := range names {
			if !tests[name] {
				wrong = append(wrong, fmt.Sprintf("%s: there is no %s", m[1], name))
			}
			numbered = numbered || strings.HasPrefix(name, "Test"+m[1])
		}
		if m[1] == "–" {
			continue
		}
		if !numbered {
			wrong = append(wrong, m[1]+" names no test with its number")
		}
		found[m[1]] = true
	}
	for _, c := range cases {
		if !found[c] {
			wrong = append(wrong, c+" is missing")
		}
	}
	return wrong
}

func TestEachCaseOfTheFieldHasItsTest(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "failures.md"))
	require.NoError(t, err)
	tests := map[string]bool{}
	for _, dir := range []string{"", "integration", "internal/kafka", "internal/window", "internal/lease", "internal/history", "internal/member", "internal/batch", "internal/audit", "marshal", "testutil"} {
		of, err := testsOf(filepath.Join(root, dir))
		require.NoError(t, err)
		maps.Copy(tests, of)
	}
	assert.Len(t, cases, 67)
	assert.Empty(t, misnamed(string(page), tests))
}

func TestAPageOfCasesThatIsNotTrueIsFound(t *testing.T) {
	page := "| C01 | a | TestC01Paused, TestGone (x_test.go) | b |\n| C03 | a | TestOther | b |\n"
	wrong := misnamed(page, map[string]bool{"TestC01Paused": true, "TestOther": true})
	assert.Contains(t, wrong, "C01: there is no TestGone")
	assert.Contains(t, wrong, "C03 names no test with its number")
	assert.Contains(t, wrong, "C05 is missing")
	assert.Len(t, wrong, 2+65)
}
