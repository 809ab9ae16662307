package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	breakable "github.com/kafka-marshal/marshal/internal/rule"
)

// PROTOCOL.md names the test that proves each of its sentences. These tests keep the names true.

var (
	quoted     = regexp.MustCompile("`([^`]+)`")
	reference  = regexp.MustCompile(`^([a-z]+): ((?:Test|Fuzz)\w+)$`)
	looksLike  = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
	broken     = regexp.MustCompile(`^BREAK=(.+)$`)
	invariant  = regexp.MustCompile(`\bsim ([SL]\d+)\b`)
	headingNo  = regexp.MustCompile(`^## (\d+)\. `)
	unproved   = "†" // a sentence that is explained in the list at the end of the page
	sections   = 9
	firstRules = 3 // from this section on, up to lastRules, each list item and table row names its proof
	lastRules  = 8
)

// tree tells what the page may name.
type tree struct {
	root       string
	tests      map[string]map[string]bool // by folder
	invariants map[string]bool            // what the simulator can fail with
}

// has tells whether a package has a test of that name. "marshal" is the root; every other name is that of a folder there,
// or of one below internal.
func (tr *tree) has(pkg, name string) (bool, error) {
	dir := tr.root
	if pkg != "marshal" {
		for _, above := range []string{"internal", filepath.Join("internal", "sim"), ""} {
			dir = filepath.Join(tr.root, above, pkg)
			if _, err := os.Stat(dir); err == nil {
				break
			}
		}
	}
	if tr.tests[dir] == nil {
		tests, err := testsOf(dir)
		if err != nil {
			return false, err
		}
		tr.tests[dir] = tests
	}
	return tr.tests[dir][name], nil
}

// testsOf lists the tests and fuzz targets of a folder, whatever their build tags.
func testsOf(dir string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	tests := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Type.Params.NumFields() == 1 {
				tests[fn.Name.Name] = true
			}
		}
	}
	return tests, nil
}

// invariantsOf lists the first arguments of all calls of a method named fail: what the simulator's checkers say is broken.
func invariantsOf(dir string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			sel, isSel := call.Fun.(*ast.SelectorExpr)
			lit, isLit := call.Args[0].(*ast.BasicLit)
			if isSel && isLit && sel.Sel.Name == "fail" && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					names[s] = true
				}
			}
			return true
		})
	}
	return names, nil
}

// check gives what is wrong with a page: names of what is not there, sentences without a name, missing sections and rules.
func (tr *tree) check(page string) (wrong []string, err error) {
	say := func(line int, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("PROTOCOL.md:%d: ", line)+fmt.Sprintf(format, args...))
	}
	said := map[breakable.Rule]bool{}
	section, next := 0, 1
	for _, block := range blocks(page) {
		if m := headingNo.FindStringSubmatch(block.text); m != nil {
			if section, err = strconv.Atoi(m[1]); err != nil {
				return nil, err
			}
			if section != next {
				say(block.line, "section %d comes where %d should", section, next)
			}
			next = section + 1
		} else if strings.HasPrefix(block.text, "## ") {
			section = 0
		}
		proofs := strings.Count(block.text, unproved)
		for _, q := range quoted.FindAllStringSubmatch(block.text, -1) {
			switch m := reference.FindStringSubmatch(q[1]); {
			case m != nil:
				proofs++
				ok, err := tr.has(m[1], m[2])
				if err != nil {
					return nil, err
				}
				if !ok {
					say(block.line, "package %s has no %s", m[1], m[2])
				}
			case looksLike.MatchString(q[1]):
				say(block.line, "%q is not of the form `package: TestName`", q[1])
			}
			if m := broken.FindStringSubmatch(q[1]); m != nil {
				r, ok := breakable.Parse(m[1])
				if !ok || r == breakable.None {
					say(block.line, "there is no rule %q to break", m[1])
				}
				said[r] = true
			}
		}
		for _, m := range invariant.FindAllStringSubmatch(block.text, -1) {
			proofs++
			if !tr.invariants[m[1]] {
				say(block.line, "the simulator never fails with %s", m[1])
			}
		}
		if firstRules <= section && section <= lastRules && block.rule && !block.leads() && proofs == 0 {
			say(block.line, "a rule without a proof: %.60s", block.text)
		}
	}
	if next != sections+1 {
		say(0, "the last section is %d, not %d", next-1, sections)
	}
	for _, r := range breakable.All() {
		if !said[r] {
			say(0, "rule %s is named nowhere: what protects it?", r)
		}
	}
	return wrong, nil
}

// block is a list item, a row of a table or a paragraph.
type block struct {
	line int
	text string
	rule bool // it may state rules: it is no heading and no head of a table
}

// leads tells whether a block only leads on to those that follow.
func (b *block) leads() bool { return strings.HasSuffix(strings.TrimRight(b.text, "* "), ":") }

var item = regexp.MustCompile(`^\s*(?:- |\d\. )`)

func blocks(page string) (all []block) {
	lines := strings.Split(page, "\n")
	open, fenced := false, false
	for i, l := range lines {
		start := block{line: i + 1, text: l, rule: true}
		switch {
		case strings.HasPrefix(l, "```"):
			fenced, open = !fenced, false
			continue
		case fenced || !open && strings.HasPrefix(l, "    "):
			open = false
			continue
		case strings.TrimSpace(l) == "" || strings.HasPrefix(l, "|--"):
			open = false
			continue
		case strings.HasPrefix(l, "#"):
			start.rule, open = false, false
		case strings.HasPrefix(l, "|"):
			start.rule, open = i+1 >= len(lines) || !strings.HasPrefix(lines[i+1], "|--"), false
		case open && !item.MatchString(l):
			all[len(all)-1].text += "\n" + l
			continue
		default:
			open = true
		}
		all = append(all, start)
	}
	return all
}

func openTree(t *testing.T) *tree {
	tr := &tree{root: filepath.Join("..", ".."), tests: map[string]map[string]bool{}}
	var err error
	tr.invariants, err = invariantsOf(filepath.Join(tr.root, "internal", "sim"))
	require.NoError(t, err)
	return tr
}

func TestTheProtocolNamesTestsThatAreThere(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "PROTOCOL.md"))
	require.NoError(t, err)
	wrong, err := openTree(t).check(string(page))
	require.NoError(t, err)
	for _, w := range wrong {
		t.Error(w)
	}
}

// TestAProtocolThatNamesWhatIsNotThereIsFound plants each mistake into a page that is right.
func TestAProtocolThatNamesWhatIsNotThereIsFound(t *testing.T) {
	var good strings.Builder
	for n := 1; n <= sections; n++ {
		fmt.Fprintf(&good, "## %d. Heading\n\n", n)
	}
	good.WriteString("## More\n\nNo rule here.\n")
	for _, r := range breakable.All() {
		fmt.Fprintf(&good, "- `BREAK=%s`\n", r)
	}
	tr := openTree(t)
	in := func(section int, text string) string {
		return strings.Replace(good.String(), fmt.Sprintf("## %d. Heading\n", section), fmt.Sprintf("## %d. Heading\n\n%s\n", section, text), 1)
	}
	for _, c := range []struct{ name, page, says string }{
		{"nothing", good.String(), ""},
		{"a test", in(5, "- A rule `house: TestTheModuleKeepsTheRules`."), ""},
		{"a test of the root", in(5, "A rule `marshal: TestMain`."), ""},
		{"a test beside the root", in(5, "A rule `testutil: TestMain`."), ""},
		{"a test behind a build tag", in(5, "A rule `sim: TestEveryBrokenRuleIsCaught`."), ""},
		{"an invariant", in(6, "| a rule | sim S3 |"), ""},
		{"one for the list", in(6, "1. A rule "+unproved+"."), ""},
		{"words need no proof", in(1, "- A word."), ""},
		{"an item of two lines", in(5, "- A rule,\n  its other half `house: TestTheModuleKeepsTheRules`."), ""},
		{"what leads on", in(5, "**The topic:**\n\nOf the others:\n- A rule, sim S1."), ""},
		{"indented code", in(5, "    free -> held"), ""},
		{"code", in(5, "```\nfree -> held\n```"), ""},
		{"a table", in(5, "| what | proof |\n|---|---|\n| a rule | sim S1 |"), ""},

		{"no such test", in(5, "- A rule `house: TestTheModuleKeepsItsRules`."), "package house has no TestTheModuleKeepsItsRules"},
		{"no such package", in(5, "- A rule `nowhere: TestMain`."), "package nowhere has no TestMain"},
		{"part of a name", in(5, "- A rule `house: TestEveryRule`."), "has no TestEveryRule"},
		{"another form", in(5, "- A rule `house.TestTheModuleKeepsTheRules` sim S1."), "not of the form"},
		{"no such rule", in(5, "- A rule `BREAK=marginal` sim S3."), `no rule "marginal"`},
		{"no such invariant", in(5, "- A rule, sim S9."), "never fails with S9"},
		{"an item without proof", in(3, "- One `house: TestTheModuleKeepsTheRules`.\n- Two."), "a rule without a proof"},
		{"an item inside of another without proof", in(3, "- One `house: TestTheModuleKeepsTheRules`.\n   - Two,\n     of it."), "a rule without a proof"},
		{"a wrong name in a continued line", in(3, "   - Two,\n     of it `house: TestNone`."), "has no TestNone"},
		{"a row without proof", in(8, "| what | proof |\n|---|---|\n| a rule | none |"), "a rule without a proof"},
		{"a paragraph without proof", in(7, "A rule\non two lines."), "a rule without a proof"},
		{"a section is missing", strings.Replace(good.String(), "## 4. Heading", "", 1), "section 5 comes where 4 should"},
		{"the last is missing", strings.Replace(good.String(), "## 9. Heading", "", 1), "the last section is 8"},
		{"a rule is named nowhere", strings.Replace(good.String(), "- `BREAK=gate`", "", 1), "rule gate is named nowhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong, err := tr.check(c.page)
			require.NoError(t, err)
			if c.says == "" {
				assert.Empty(t, wrong)
				return
			}
			assert.True(t, slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, c.says) }), "%q", wrong)
		})
	}
}
